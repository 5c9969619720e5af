// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/gomega"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// tenants checks the commands of docs/tenants.md with each of the Roles of config/examples: clusterctl, events, and the number of workers.
func (l *life) tenants() {
	l.Helper()
	for _, o := range l.tenantRoles() {
		l.Create(o)
	}
	describe := "describe cluster life --namespace fleet --show-conditions all"
	kubeconfig := "get kubeconfig life --namespace fleet"
	for _, variable := range []string{"PORTAL_ZONE_ID", "PORTAL_VPC", "PORTAL_SERVICE_OFFERING_ID", "PORTAL_SSH_KEY_PAIR"} {
		l.Setenv(variable, "any")
	}
	generate := "generate cluster other --target-namespace fleet --kubernetes-version v1.36.3 --from " + filepath.Join("..", "..", "templates", "cluster-template.yaml")
	for role, commands := range map[string]struct{ may, mayNot []string }{
		"portal-owner":  {[]string{describe, kubeconfig, generate}, nil},
		"portal-reader": {[]string{describe, generate}, []string{kubeconfig}},
		"portal-scaler": {nil, []string{kubeconfig}},
	} {
		path := l.tenant(role)
		for _, command := range commands.may {
			out, err := l.clusterctl(l.Context(), path, strings.Fields(command)...).CombinedOutput()
			l.Expect(err).NotTo(HaveOccurred(), "%s: clusterctl %s: %s", role, command, out)
		}
		for _, command := range commands.mayNot {
			out, err := l.clusterctl(l.Context(), path, strings.Fields(command)...).CombinedOutput()
			l.Expect(err).To(HaveOccurred(), "%s: clusterctl %s", role, command)
			l.Expect(string(out)).To(ContainSubstring("forbidden"))
		}
		config, err := clientcmd.BuildConfigFromFlags("", path)
		l.Expect(err).NotTo(HaveOccurred())
		user, err := client.New(config, client.Options{Scheme: box.Client.Scheme()})
		l.Expect(err).NotTo(HaveOccurred())
		events := &corev1.EventList{}
		l.Expect(user.List(l.Context(), events, client.InNamespace(watched))).To(Succeed(), role)
		l.Expect(events.Items).NotTo(BeEmpty())
		scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 3}}
		l.page(path, role != "portal-scaler")
		scaled := user.SubResource("scale").Update(l.Context(), l.deployment, client.WithSubResourceBody(scale))
		l.Expect(scaled == nil).To(Equal(role != "portal-reader"), "%s: %v", role, scaled)
	}
}

// page checks that portalctl page shows the Cluster to a user who may see its objects, and says to anybody else which rights are missing.
func (l *life) page(kubeconfig string, may bool) {
	l.Helper()
	command := exec.CommandContext(l.Context(), box.Binary("portalctl"), "page", "--kubeconfig", kubeconfig, "--namespace", watched, "--listen", "127.0.0.1:0")
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	if !may {
		out, err := command.CombinedOutput()
		l.Expect(err).To(HaveOccurred())
		l.Expect(string(out)).To(And(ContainSubstring("forbidden"), ContainSubstring("portal-reader")))
		return
	}
	said := &progress{lines: make(chan string, 100)}
	command.Stderr = said
	l.Expect(command.Start()).To(Succeed())
	url := regexp.MustCompile(`http://127\S+`).FindString(<-said.lines)
	l.Eventually(func() (string, error) {
		answer, err := http.Get(url + "snapshot")
		if err != nil {
			return "", err
		}
		var shown struct {
			State struct {
				Problem  string
				Clusters []struct {
					Name, State string
					Ready       int
					Nodes       []struct{ State string }
				}
				Jobs []struct{ Kind, Status string }
			}
		}
		err = json.NewDecoder(answer.Body).Decode(&shown)
		return fmt.Sprint(shown.State.Problem, shown.State.Clusters, shown.State.Jobs), errors.Join(err, answer.Body.Close())
	}).Should(Equal("[{life Running 3 [{up} {up} {up}]}] [{scale succeeded} {create succeeded}]"))
	l.Expect(command.Process.Signal(os.Interrupt)).To(Succeed())
	l.Expect(command.Wait()).To(Succeed())
}

// progress passes on what a program says, line by line.
type progress struct{ lines chan string }

func (p *progress) Write(text []byte) (int, error) {
	p.lines <- string(text)
	return len(text), nil
}

// tenantRoles returns the example's objects for the namespace of the Cluster.
func (l *life) tenantRoles() (all []client.Object) {
	l.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "config", "examples", "tenant-roles.yaml"))
	l.Expect(err).NotTo(HaveOccurred())
	for _, document := range bytes.Split(content, []byte("\n---\n")) {
		o := &unstructured.Unstructured{}
		l.Expect(yaml.Unmarshal(document, o)).To(Succeed())
		if o.GetNamespace() != "" {
			o.SetNamespace(watched)
		}
		all = append(all, o)
	}
	return all
}

// tenant writes the kubeconfig of a user who has the Role.
func (l *life) tenant(role string) string {
	l.Helper()
	l.Create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role, Namespace: watched}, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: role}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
	})
	path, err := box.KubeconfigOf(role)
	l.Expect(err).NotTo(HaveOccurred())
	return path
}
