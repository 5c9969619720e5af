// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// UpgradeProvider upgrades our provider as clusterctl upgrade apply does. It ends the manager, deletes the objects of the current checkout
// except CRDs and the namespace, installs all objects of another checkout, and starts that checkout's manager.
func (s *Sandbox) UpgradeProvider(ctx context.Context, root string) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	s.StopManager()
	old, err := s.provider(ctx)
	if err != nil {
		return err
	}
	if err := s.progress.step("portal provider: delete the previous release", func() error { return s.uninstall(ctx, old) }); err != nil {
		return err
	}
	s.options.Root = root
	if err := s.installProvider(ctx); err != nil {
		return err
	}
	return s.StartManager(ctx)
}

// uninstall deletes the objects, as clusterctl does before it installs another version.
func (s *Sandbox) uninstall(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		if slices.Contains([]string{"CustomResourceDefinition", "Namespace"}, object.GetKind()) {
			continue
		}
		if err := client.IgnoreNotFound(s.Client.Delete(ctx, object)); err != nil {
			return err
		}
	}
	return nil
}
