// SPDX-License-Identifier: Apache-2.0

package attacks

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// forged begins a line in the format of the manager's log.
const forged = "E0101 00:00:00.000000       1 forged.go:1] "

// refuses creates a Cluster whose texts are full of line breaks. The portal refuses it with a text that has more of them.
func (t *tenant) refuses() (*cluster, string) {
	t.Helper()
	mark := fmt.Sprintf("forged-by-%s", t.namespace)
	line := "x\n" + forged + mark + "\r\n" + forged + mark + "\n"
	t.must(box.Portal.Inject(emulator.Fault{
		ID: mark, Method: http.MethodPost, Path: "/kubernetes-clusters", Account: user(attacker, t.number).Account, Code: "INVALID_PARAMETER", Message: line, Field: line,
	}))
	c := t.own(nil)
	c.controlPlane.Spec.Description, c.portalCluster.Spec.ZoneID = line, line
	c.controlPlane.Spec.Workers.ServiceOfferingID = line
	metav1.SetMetaDataAnnotation(&c.controlPlane.ObjectMeta, infrav1.DecisionAnnotation, infrav1.DecisionRetry.About(line))
	if !t.create(c.objects()...) {
		return nil, ""
	}
	t.await("the portal has refused", func() bool {
		for _, f := range box.Portal.Faults() {
			if f.Fault.ID == mark {
				return f.Hits > 0
			}
		}
		return false
	})
	return c, mark
}

func forgesLog(t *tenant) string {
	c, mark := t.refuses()
	if c == nil {
		return ""
	}
	return t.seen("a line of the manager's log was written by the tenant", func() bool {
		log, err := os.ReadFile(filepath.Join(box.Dir, "manager.log"))
		t.must(err)
		return bytes.Contains(append([]byte("\n"), log...), []byte("\n"+forged+mark))
	})
}

func breaksCondition(t *tenant) string {
	c, mark := t.refuses()
	if c == nil {
		return ""
	}
	return t.seen("a condition has a line that the portal wrote", func() bool {
		return slices.ContainsFunc(fetched(t, c.controlPlane).Status.Conditions, func(condition metav1.Condition) bool {
			before, _, found := strings.Cut(condition.Message, mark)
			return found && strings.Contains(before, "\n")
		})
	})
}

// asks sends a request to the manager's diagnostics with the token of a ServiceAccount in the tenant's namespace.
func (t *tenant) asks(method, path, body string) string {
	t.Helper()
	status, _ := t.diagnostics(method, path, body, t.account(t.namespace, "tenant"))
	if status == http.StatusOK {
		return method + " " + path + " was answered"
	}
	t.Logf("%s %s: %d", method, path, status)
	return ""
}

// account creates a ServiceAccount and returns a token for it.
func (t *tenant) account(namespace, name string) string {
	t.Helper()
	t.must(box.Client.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}))
	token, err := clientset.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	t.must(err)
	return token.Status.Token
}

func (t *tenant) diagnostics(method, path, body, token string) (int, string) {
	t.Helper()
	address := strings.TrimSuffix(box.MetricsURL, "/metrics") + path
	if !*withoutControls {
		address = "https" + strings.TrimPrefix(address, "http")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	var response *http.Response
	t.await("the manager's diagnostics are served", func() bool {
		request, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
		t.must(err)
		request.Header.Set("Authorization", "Bearer "+token)
		response, err = (&http.Client{Transport: transport}).Do(request)
		return err == nil
	})
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	t.must(err)
	return response.StatusCode, string(answer)
}

// searches searches the traces of the earlier rows: everything that users without the right to read Secrets can read.
func searches(t *tenant) string {
	theirs := t.victim(nil)
	token := t.account(t.namespace, "reader")
	t.must(box.Client.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: t.namespace}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: t.namespace, Name: "reader"}},
	}))
	status, metrics := t.diagnostics(http.MethodGet, "/metrics", "", token)
	if status != http.StatusOK || !strings.Contains(metrics, "capportal_") {
		t.Fatalf("metrics: %d, %.200s", status, metrics)
	}
	log, err := os.ReadFile(filepath.Join(box.Dir, "manager.log"))
	t.must(err)
	places := map[string]string{"the metrics": metrics, "the log": string(log)}
	for _, list := range []client.ObjectList{&infrav1.PortalClusterList{}, &infrav1.PortalControlPlaneList{}, &corev1.EventList{}} {
		t.must(box.Client.List(t.Context(), list))
		text, err := json.Marshal(list)
		t.must(err)
		places[fmt.Sprintf("%T", list)] = string(text)
	}
	if !strings.Contains(string(t.stored(theirs)), "canary-token") {
		t.Fatal("the canary is not in the Secret that should hold it")
	}
	for place, text := range places {
		for _, canary := range []string{"canary-password", "canary-token", managerSecret} {
			if strings.Contains(text, canary) {
				return canary + " is in " + place
			}
		}
	}
	return ""
}
