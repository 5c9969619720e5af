// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/kubectl/pkg/util"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// applier applies the manifests of objects as a GitOps tool does.
type applier struct {
	title string
	name  string                           // its field manager
	track func(*unstructured.Unstructured) // adds the tool's own labels or annotations
	apply func(context.Context, *unstructured.Unstructured) error
}

// flux uses server-side apply with force. Before that, it applies as a dry run without force: a conflict would mean that another client has
// set a field of the manifest.
var flux = applier{
	title: "Flux", name: "kustomize-controller",
	track: func(o *unstructured.Unstructured) {
		labels := map[string]string{"kustomize.toolkit.fluxcd.io/name": "clusters", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}
		for key, value := range o.GetLabels() {
			labels[key] = value
		}
		o.SetLabels(labels)
	},
	apply: func(ctx context.Context, o *unstructured.Unstructured) error {
		for _, options := range [][]client.ApplyOption{{client.DryRunAll}, {client.ForceOwnership}} {
			configuration := client.ApplyConfigurationFromUnstructured(o.DeepCopy())
			if err := live.Apply(ctx, configuration, append(options, client.FieldOwner("kustomize-controller"))...); err != nil {
				return err
			}
		}
		return nil
	},
}

// argoCD applies as kubectl does, with a three-way merge patch of the last applied manifest, the new manifest and the object.
var argoCD = applier{
	title: "Argo CD", name: "argocd-controller",
	track: func(o *unstructured.Unstructured) {
		annotations := map[string]string{"argocd.argoproj.io/tracking-id": fmt.Sprintf("clusters:%s/%s:%s/%s",
			o.GroupVersionKind().Group, o.GetKind(), o.GetNamespace(), o.GetName())}
		for key, value := range o.GetAnnotations() {
			annotations[key] = value
		}
		o.SetAnnotations(annotations)
	},
	apply: func(ctx context.Context, o *unstructured.Unstructured) error {
		owner := client.FieldOwner("argocd-controller")
		modified, err := util.GetModifiedConfiguration(o.DeepCopy(), true, unstructured.UnstructuredJSONScheme)
		if err != nil {
			return err
		}
		present := &unstructured.Unstructured{}
		present.SetGroupVersionKind(o.GroupVersionKind())
		err = live.Get(ctx, client.ObjectKeyFromObject(o), present)
		if apierrors.IsNotFound(err) {
			created := &unstructured.Unstructured{}
			if err := json.Unmarshal(modified, &created.Object); err != nil {
				return err
			}
			return live.Create(ctx, created, owner)
		}
		if err != nil {
			return err
		}
		original, err := util.GetOriginalConfiguration(present)
		if err != nil {
			return err
		}
		current, err := json.Marshal(present)
		if err != nil {
			return err
		}
		patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch(original, modified, current)
		if err != nil || string(patch) == "{}" {
			return err
		}
		return live.Patch(ctx, present, client.RawPatch(types.MergePatchType, patch), owner)
	},
}
