// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
)

// environment is what all tests share.
type environment struct {
	root       string // the checkout
	dir        string // kubeconfig and clusterctl's repository, removed at the end
	artifacts  string
	provider   provider
	clusterctl clusterctl
	home       *sandbox.Sandbox // the management cluster
	portal     *portal
	// initialized is when clusterctl init was called.
	initialized time.Time
}

var env environment

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	ctx := context.Background()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-signals
		end(ctx, 1)
	}()
	if err := prepare(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		end(ctx, 1)
	}
	end(ctx, m.Run())
}

// prepare creates the management cluster and installs everything in it.
func prepare(ctx context.Context) (err error) {
	if env.root, err = filepath.Abs("../.."); err != nil {
		return err
	}
	env.artifacts = cmp.Or(os.Getenv("E2E_ARTIFACTS"), filepath.Join(env.root, "_artifacts"))
	if err := os.RemoveAll(env.artifacts); err != nil {
		return err
	}
	if env.dir, err = os.MkdirTemp("", "portal-e2e-"); err != nil {
		return err
	}
	if env.provider, err = releasedProvider(); err != nil {
		return err
	}
	if env.clusterctl, err = newClusterctl(ctx); err != nil {
		return err
	}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"management cluster", func() error { env.home, err = newHome(ctx); return err }},
		{"emulated portal", func() error { env.portal, err = startPortal(ctx); return err }},
		{"clusterctl init", func() error { env.initialized = time.Now(); return env.clusterctl.init(ctx) }},
	} {
		begin := time.Now()
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Printf("e2e: %-20s %5.1f s\n", step.name, time.Since(begin).Seconds())
	}
	return nil
}

// end collects logs if a test failed, removes what the tests created unless E2E_KEEP is set, and ends the process.
func end(ctx context.Context, code int) {
	var failed []error
	if code != 0 && env.home != nil {
		failed = append(failed, collectLogs(ctx))
		fmt.Fprintln(os.Stderr, "e2e: the artifacts are in", env.artifacts)
	}
	if os.Getenv("E2E_KEEP") != "" && env.home != nil {
		fmt.Printf("e2e: kept, as E2E_KEEP says: kubeconfig %s, clusterctl configuration %s\n", env.home.Kubeconfig, env.clusterctl.config)
	} else {
		failed = append(failed, removeHome(ctx), os.RemoveAll(env.dir))
	}
	if err := errors.Join(failed...); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}
