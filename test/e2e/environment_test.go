// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	homeName = "portal-e2e"      // kind cluster in which the portal runs
	awayName = "portal-e2e-away" // kind cluster to which Clusters are moved
)

// environment is what all specs share.
type environment struct {
	root       string // the checkout
	dir        string // kubeconfigs and clusterctl's repository, removed at the end
	artifacts  string
	images     []string // other images to load into each kind cluster
	provider   provider
	clusterctl clusterctl
	home       *management
	away       *management // created by the spec that moves Clusters
	portal     *portal
	// initialized is when clusterctl init was called on the home cluster.
	initialized time.Time
}

var env *environment

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctrl.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	// Specs mostly wait. The expensive part is starting API servers, which the portal does for a few clusters at a time.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	code := 1
	err := prepare(ctx)
	if err == nil {
		uninterrupted := context.AfterFunc(ctx, func() { interrupted(stop) })
		code = m.Run()
		if !uninterrupted() {
			select {} // until interrupted ends the process
		}
	} else {
		fmt.Fprintln(os.Stderr, "e2e:", err)
	}
	if code != 0 {
		env.collect(context.WithoutCancel(ctx))
	}
	if err := env.close(context.WithoutCancel(ctx)); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	return code
}

// interrupted removes what the tests created while specs still run, and ends the process. After a second signal it ends at once.
func interrupted(again func()) {
	again()
	fmt.Fprintln(os.Stderr, "e2e: interrupted, removing what was made")
	if err := env.close(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
	}
	os.Exit(1)
}

// prepare creates the management cluster and installs everything in it.
func prepare(ctx context.Context) (err error) {
	env = &environment{images: strings.FieldsFunc(os.Getenv("E2E_LOAD_IMAGES"), func(r rune) bool { return r == ',' || r == ' ' || r == '\n' })}
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
	if env.provider, err = releasedProvider(env.root); err != nil {
		return err
	}
	if env.clusterctl, err = newClusterctl(ctx, env.root, env.dir, env.provider); err != nil {
		return err
	}
	if err := env.step("management cluster", func() error { env.home, err = newHome(ctx); return err }); err != nil {
		return err
	}
	if err := env.step("emulated portal", func() error { env.portal, err = startPortal(ctx, env.home); return err }); err != nil {
		return err
	}
	env.initialized = time.Now()
	return env.step("clusterctl init", func() error { return env.clusterctl.init(ctx, env.home) })
}

// newHome returns the management cluster for the specs: an existing one, or a new kind cluster with all images.
func newHome(ctx context.Context) (*management, error) {
	if kubeconfig := os.Getenv("E2E_USE_EXISTING"); kubeconfig != "" {
		return connect("", kubeconfig)
	}
	return create(ctx, homeName)
}

// step runs do and prints how long it took.
func (e *environment) step(name string, do func() error) error {
	begin := time.Now()
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	fmt.Printf("e2e: %-20s %5.1f s\n", name, time.Since(begin).Seconds())
	return nil
}

// managements returns the existing management clusters.
func (e *environment) managements() []*management {
	return slices.DeleteFunc([]*management{e.home, e.away}, func(m *management) bool { return m == nil })
}

// collect writes the artifacts that no single spec writes.
func (e *environment) collect(ctx context.Context) {
	for _, m := range e.managements() {
		if err := m.collectLogs(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "e2e: logs:", err)
		}
	}
	fmt.Fprintln(os.Stderr, "e2e: the artifacts are in", e.artifacts)
}

// close removes what the tests created, unless E2E_KEEP is set.
func (e *environment) close(ctx context.Context) error {
	if os.Getenv("E2E_KEEP") != "" && e.home != nil {
		fmt.Printf("e2e: kept, as E2E_KEEP says: kubeconfig %s, clusterctl configuration %s\n", e.home.kubeconfig, e.clusterctl.config)
		return nil
	}
	var failed []error
	if e.portal != nil {
		e.portal.admin.stop()
	}
	if e.home != nil && e.home.name == "" {
		failed = append(failed, e.home.removeNamespaces(ctx), e.clusterctl.remove(ctx, e.home))
	}
	failed = append(failed, removeKindClusters())
	if e.dir != "" {
		failed = append(failed, os.RemoveAll(e.dir))
	}
	return errors.Join(failed...)
}
