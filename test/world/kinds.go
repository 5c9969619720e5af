// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"
)

// coreGroup stands for the group "" inside of the API server, because a custom resource must have a group.
const coreGroup = "core.world"

// builtin are the kinds of Kubernetes itself that core, the provider or a life use. They are served as custom resources of any content, so
// nothing checks or defaults them.
var builtin = []struct {
	group, version, plural, kind string
	scope                        apiextensionsv1.ResourceScope
	status                       bool // has the subresource
}{
	{"", "v1", "namespaces", "Namespace", apiextensionsv1.ClusterScoped, false},
	{"", "v1", "nodes", "Node", apiextensionsv1.ClusterScoped, true},
	{"", "v1", "pods", "Pod", apiextensionsv1.NamespaceScoped, true},
	{"", "v1", "secrets", "Secret", apiextensionsv1.NamespaceScoped, false},
	{"", "v1", "configmaps", "ConfigMap", apiextensionsv1.NamespaceScoped, false},
	{"", "v1", "events", "Event", apiextensionsv1.NamespaceScoped, false},
	{"", "v1", "persistentvolumes", "PersistentVolume", apiextensionsv1.ClusterScoped, false},
	{"", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", apiextensionsv1.NamespaceScoped, false},
	{"apps", "v1", "daemonsets", "DaemonSet", apiextensionsv1.NamespaceScoped, false},
	{"apps", "v1", "deployments", "Deployment", apiextensionsv1.NamespaceScoped, false},
	{"policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", apiextensionsv1.NamespaceScoped, true},
	{"storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", apiextensionsv1.ClusterScoped, false},
	{"apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", apiextensionsv1.ClusterScoped, false},
}

// customKinds are the CustomResourceDefinitions of core and of the provider, from their files.
var customKinds = sync.OnceValues(readCRDs)

func readCRDs() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api").Output()
	if err != nil {
		return nil, fmt.Errorf("find core's files: %w", err)
	}
	var crds []*apiextensionsv1.CustomResourceDefinition
	for pattern, contract := range map[string]string{
		filepath.Join(strings.TrimSpace(string(module)), "core/config/crd/bases/cluster.x-k8s.io_*.yaml"):         "v1beta2",
		filepath.Join(strings.TrimSpace(string(module)), "core/config/crd/bases/runtime.cluster.x-k8s.io_*.yaml"): "v1beta2",
		"../../config/crd/bases/*.yaml": "v1beta1",
	} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			return nil, fmt.Errorf("no files %s: %w", pattern, err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			crd := &apiextensionsv1.CustomResourceDefinition{}
			if err := yaml.Unmarshal(content, crd); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			crd.Labels = map[string]string{clusterv1.GroupVersion.Group + "/v1beta2": contract}
			crds = append(crds, establish(crd))
		}
	}
	slices.SortFunc(crds, func(a, b *apiextensionsv1.CustomResourceDefinition) int { return strings.Compare(a.Name, b.Name) })
	return crds, nil
}

// establish does what an API server does with a new CRD. Only the stored version is served.
func establish(crd *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	crd.UID = types.UID("crd-" + crd.Name)
	crd.Spec.Versions = slices.DeleteFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return !v.Storage })
	crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(crd)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
	crd.Status.AcceptedNames = crd.Spec.Names
	crd.Status.StoredVersions = []string{crd.Spec.Versions[0].Name}
	for _, t := range []apiextensionsv1.CustomResourceDefinitionConditionType{apiextensionsv1.Established, apiextensionsv1.NamesAccepted} {
		crd.Status.Conditions = append(crd.Status.Conditions, apiextensionsv1.CustomResourceDefinitionCondition{Type: t, Status: apiextensionsv1.ConditionTrue})
	}
	return crd
}

// builtinKinds are the CRDs of the built-in kinds.
func builtinKinds() []*apiextensionsv1.CustomResourceDefinition {
	anything := true
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, b := range builtin {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		crd.Spec.Group = inside(b.group)
		crd.Name = b.plural + "." + crd.Spec.Group
		crd.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: b.plural, Kind: b.kind}
		crd.Spec.Scope = b.scope
		version := apiextensionsv1.CustomResourceDefinitionVersion{
			Name: b.version, Served: true, Storage: true, Subresources: &apiextensionsv1.CustomResourceSubresources{},
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &anything}},
		}
		if b.status {
			version.Subresources.Status = &apiextensionsv1.CustomResourceSubresourceStatus{}
		}
		if b.kind == "Pod" { // the only built-in kind that is selected by a field
			version.SelectableFields = []apiextensionsv1.SelectableField{{JSONPath: ".spec.nodeName"}}
			version.Schema.OpenAPIV3Schema.Properties = map[string]apiextensionsv1.JSONSchemaProps{"spec": {
				Type: "object", XPreserveUnknownFields: &anything, Properties: map[string]apiextensionsv1.JSONSchemaProps{"nodeName": {Type: "string"}},
			}}
		}
		crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{version}
		crds = append(crds, establish(crd))
	}
	return crds
}

// inside is the name of a group in the API server.
func inside(group string) string {
	if group == "" {
		return coreGroup
	}
	return group
}

// outside is the group of an object as clients see it.
func outside(u *unstructured.Unstructured) schema.GroupVersionKind {
	gvk := u.GroupVersionKind()
	if gvk.Group == coreGroup {
		gvk.Group = ""
	}
	return gvk
}

// newMapper knows all kinds, as discovery would tell.
func newMapper(crds []*apiextensionsv1.CustomResourceDefinition) *meta.DefaultRESTMapper {
	var versions []schema.GroupVersion
	for _, crd := range crds {
		versions = append(versions, schema.GroupVersion{Group: strings.TrimPrefix(crd.Spec.Group, coreGroup), Version: crd.Spec.Versions[0].Name})
	}
	mapper := meta.NewDefaultRESTMapper(versions)
	for i, crd := range crds {
		scope := meta.RESTScope(meta.RESTScopeRoot)
		if crd.Spec.Scope == apiextensionsv1.NamespaceScoped {
			scope = meta.RESTScopeNamespace
		}
		version := versions[i]
		kind := version.WithKind(crd.Spec.Names.Kind)
		mapper.AddSpecific(kind, version.WithResource(crd.Spec.Names.Plural), version.WithResource(strings.ToLower(kind.Kind)), scope)
		mapper.Add(version.WithKind(kind.Kind+"List"), scope) // core asks for lists as kinds
	}
	return mapper
}
