// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	jsonpatch "gomodules.xyz/jsonpatch/v2"
	evanphx "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// admissionHooks call core's webhooks, which the context has.
type admissionHooks struct{}

// Handles implements admission.Interface.
func (admissionHooks) Handles(o admission.Operation) bool {
	return o == admission.Create || o == admission.Update || o == admission.Delete
}

// Admit implements admission.MutationInterface.
func (admissionHooks) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	return callWebhook(ctx, a, "mutate")
}

// Validate implements admission.ValidationInterface.
func (admissionHooks) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	return callWebhook(ctx, a, "validate")
}

func callWebhook(ctx context.Context, a admission.Attributes, verb string) error {
	gvk := a.GetKind()
	path := "/" + verb + "-" + strings.ReplaceAll(gvk.Group, ".", "-") + "-" + gvk.Version + "-" + strings.ToLower(gvk.Kind)
	all, _ := ctx.Value(webhooksKey{}).(map[string]http.Handler)
	hook, ok := all[path].(*ctrladmission.Webhook)
	if !ok || a.GetSubresource() != "" || a.GetOperation() == admission.Delete && (gvk.Kind != "ClusterClass" || verb != "validate") {
		return nil // core judges the deletion of no other kind
	}
	obj, _ := a.GetObject().(*unstructured.Unstructured)
	var raw []byte
	var err error
	if obj != nil {
		if raw, err = json.Marshal(obj.Object); err != nil {
			return err
		}
	}
	dry := a.IsDryRun()
	request := ctrladmission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "1", Kind: metav1.GroupVersionKind(gvk), Resource: metav1.GroupVersionResource(a.GetResource()), Namespace: a.GetNamespace(), Name: a.GetName(),
		Operation: admissionv1.Operation(a.GetOperation()), Object: runtime.RawExtension{Raw: raw}, DryRun: &dry,
	}}
	if old, ok := a.GetOldObject().(*unstructured.Unstructured); ok && old != nil {
		if request.OldObject.Raw, err = json.Marshal(old.Object); err != nil {
			return err
		}
	}
	response := hook.Handle(ctx, request)
	if !response.Allowed {
		if response.Result != nil {
			return &apierrors.StatusError{ErrStatus: *response.Result}
		}
		return fmt.Errorf("%s refused", path)
	}
	return mutate(obj, raw, response.Patches)
}

// mutate applies the patches of a webhook to the object, whose JSON is raw.
func mutate(obj *unstructured.Unstructured, raw []byte, patches []jsonpatch.Operation) error {
	if len(patches) == 0 {
		return nil
	}
	encoded, err := json.Marshal(patches)
	if err != nil {
		return err
	}
	patch, err := evanphx.DecodePatch(encoded)
	if err != nil {
		return err
	}
	if raw, err = patch.Apply(raw); err != nil {
		return err
	}
	changed := &unstructured.Unstructured{}
	if err := changed.UnmarshalJSON(raw); err != nil {
		return err
	}
	obj.Object = changed.Object
	return nil
}

// webhookServer keeps the webhooks that a manager registers.
type webhookServer struct {
	all map[string]http.Handler
	mux *http.ServeMux
}

// NeedLeaderElection implements webhook.Server.
func (s *webhookServer) NeedLeaderElection() bool { return false }

// Register implements webhook.Server.
func (s *webhookServer) Register(path string, hook http.Handler) {
	s.all[path] = hook
	s.mux.Handle(path, hook)
}

// Start implements webhook.Server.
func (s *webhookServer) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// StartedChecker implements webhook.Server.
func (s *webhookServer) StartedChecker() healthz.Checker { return healthz.Ping }

// WebhookMux implements webhook.Server.
func (s *webhookServer) WebhookMux() *http.ServeMux { return s.mux }
