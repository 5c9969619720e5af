// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator/page"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator/page/picture"
)

// pageEvery is the time between two looks at the management cluster, each of which is one request for one object. Watches tell the rest.
const pageEvery = 2 * time.Second

const pageLong = `Show the Clusters of a management cluster in a browser: those with problems first, conditions with their
reasons, Machines and the nodes that they claim, and what has happened in the last hour, from the provider's
events. The page is served on this machine only, changes nothing, and needs no portal and no portal user.

It reads the namespace of the kubeconfig's context, or --namespace, or --all-namespaces, with the rights of the
Role portal-reader (docs/tenants.md): no Secret, and so no kubeconfig of a workload cluster.`

// management is where a management cluster is.
type management struct {
	kubeconfig, context, namespace string
	all                            bool
}

func (a *app) pageCommand() *cobra.Command {
	var at management
	var listen string
	cmd := &cobra.Command{
		Use:     "page",
		Short:   "Show the Clusters of a management cluster in a browser",
		Long:    pageLong,
		Example: "  portalctl page --namespace fleet",
		Args:    cobra.NoArgs,
		RunE:    a.runs(func(ctx context.Context, _ []string) error { return a.page(ctx, at, listen) }),
	}
	flags := cmd.Flags()
	flags.StringVar(&at.kubeconfig, "kubeconfig", "", "`file` with the way to the management cluster (default $KUBECONFIG, else ~/.kube/config)")
	flags.StringVar(&at.context, "context", "", "`name` of a context of it (default its current one)")
	flags.StringVarP(&at.namespace, "namespace", "n", "", "`namespace` to show (default that of the context)")
	flags.BoolVarP(&at.all, "all-namespaces", "A", false, "show all namespaces")
	flags.StringVar(&listen, "listen", "127.0.0.1:8446", "loopback `address` of the page. Port 0 takes a free one")
	cmd.MarkFlagsMutuallyExclusive("namespace", "all-namespaces")
	return cmd
}

// page serves the page until the context ends.
func (a *app) page(ctx context.Context, at management, listen string) error {
	// The libraries log what the page says itself.
	log.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = at.kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: at.context})
	config, err := loader.ClientConfig()
	if err != nil {
		return usageError("give --kubeconfig, or set KUBECONFIG", "the way to the management cluster: %w", err)
	}
	of, namespace := "all namespaces", ""
	if !at.all {
		if namespace = at.namespace; namespace == "" {
			if namespace, _, err = loader.Namespace(); err != nil {
				return usageError("correct the kubeconfig, or give --namespace", "%w", err)
			}
		}
		of = "namespace " + namespace
	}
	fleet, err := picture.NewFleet(ctx, config, namespace)
	if err != nil {
		return unreadable(err, of)
	}
	server, err := page.Listen(ctx, listen, page.Options{Title: "Clusters in " + of, Kubernetes: fleet.Read, Every: pageEvery, ReadOnly: true})
	if errors.Is(err, syscall.EADDRINUSE) {
		return usageError("stop the program that uses this address, or set --listen to another one (port 0 takes a free one)", "--listen: %w", err)
	}
	if err != nil {
		return usageError("", "--listen: %w", err)
	}
	a.say("The Clusters in %s are shown at %s until you press Ctrl-C.", of, server.URL)
	<-ctx.Done()
	return server.Close()
}

// unreadable says what to do about a management cluster that cannot be read.
func unreadable(err error, of string) error {
	known := &failure{code: exitUnreachable, err: fmt.Errorf("the management cluster cannot be read: %w", err), advice: "compare the kubeconfig and its context, and try again"}
	switch {
	case isInterrupted(err):
		return err
	case apierrors.IsForbidden(err):
		known.code, known.advice = exitRefused, "bind the user to the rules of the Role portal-reader (docs/tenants.md) in "+of+", or give another --namespace"
	case apierrors.IsUnauthorized(err):
		known.code, known.advice = exitCredentials, "renew the credentials of the kubeconfig"
	case meta.IsNoMatchError(err):
		known.code, known.advice = exitRefused, "Cluster API or the provider is not installed there: give another --kubeconfig or --context"
	}
	return known
}
