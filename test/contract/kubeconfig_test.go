// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestKubeconfigPolicy writes dangerous kubeconfig Secrets, which core would follow, as different users. The policy refuses them from a
// tenant with all rights in one namespace.
func TestKubeconfigPolicy(t *testing.T) {
	f := newFixture(t)
	tenant, trusted := f.tenant(), f.user("trusted", f.namespace, everything)
	controller := f.user("controller", "", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create", "update"}})
	f.user("trusted", "", rbacv1.PolicyRule{APIGroups: []string{clusterv1.GroupVersion.Group}, Resources: []string{"clusters"}, Verbs: []string{"write-kubeconfig"}})

	file := func(user string) string {
		return "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: c}}], " +
			"clusters: [{name: c, cluster: {server: 'https://a.example'}}], users: [{name: c, user: {" + user + "}}]}"
	}
	wide := func(text string) string { // UTF-16 with a byte order mark
		var out bytes.Buffer
		for _, b := range "\ufeff" + text {
			out.Write([]byte{byte(b), byte(b >> 8)})
		}
		return out.String()
	}
	refused := map[string]string{
		"a token's file":     file("tokenFile: /a"),
		"a proxy":            strings.Replace(file("token: a"), "server:", "proxy-url: 'http://a', server:", 1),
		"in JSON":            `{"users":[{"user":{"tokenFile":"/a"}}]}`,
		"an escape":          file(`"token\u0046ile": /a`),
		"a binary key":       file("!!binary dG9rZW5GaWxl: /a"),
		"another encoding":   wide(file("tokenFile: /a")),
		"an anchor":          file("&k tokenFile : /a"),
		"a large kubeconfig": file("token: "+strings.Repeat("a", 100_000)) + "\ntokenFile: /a",
	}
	n := 0
	secret := func(content string) *corev1.Secret {
		n++
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: fmt.Sprintf("c%d-kubeconfig", n)}, Data: map[string][]byte{"value": []byte(content)}}
	}
	denied := And(MatchError(apierrors.IsInvalid, "IsInvalid"), MatchError(ContainSubstring("verb write-kubeconfig")))
	for title, content := range refused {
		for i := range 3 { // at each offset in a base64 group
			f.Expect(tenant.Create(t.Context(), secret(strings.Repeat(" ", i)+content))).To(denied, "%s, after %d spaces", title, i)
		}
		f.Expect(controller.Create(t.Context(), secret(content))).To(Succeed(), "%s, by a controller", title)
		f.Expect(trusted.Create(t.Context(), secret(content))).To(Succeed(), "%s, by a trusted user", title)
	}
	plain := secret("")
	plain.Data, plain.StringData = nil, map[string]string{"value": refused["a token's file"]}
	f.Expect(tenant.Create(t.Context(), plain)).To(denied, "as stringData")

	own := secret(file("token: a"))
	f.Expect(tenant.Create(t.Context(), own)).To(Succeed(), "a kubeconfig with a token")
	before := own.DeepCopy()
	own.Data["value"] = []byte(refused["a token's file"])
	f.Expect(tenant.Patch(t.Context(), own, client.MergeFrom(before))).To(denied)
	own.Data["value"] = []byte(refused["a token's file"])
	f.Expect(trusted.Update(t.Context(), own)).To(Succeed())
	own.Labels = map[string]string{"mine": "too"}
	f.Expect(tenant.Update(t.Context(), own)).To(Succeed(), "an update that keeps the kubeconfig of the trusted user")
	f.Expect(tenant.Delete(t.Context(), own)).To(Succeed())
	other := secret(refused["a token's file"])
	other.Name = "kubeconfig-of-something"
	f.Expect(tenant.Create(t.Context(), other)).To(Succeed(), "a Secret that core does not read")
}

// TestKubeconfigPatterns derives the patterns of the policy. They match base64, so a reader cannot check them.
func TestKubeconfigPatterns(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	policy, err := os.ReadFile("../../config/admission/kubeconfig.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	var words, hidden []string
	for _, word := range []string{"tokenFile", "proxy-url"} {
		for before := range 3 {
			text := append(make([]byte, before), word...)
			encoded := base64.RawStdEncoding.EncodeToString(text)
			// Characters that also hold bits of the byte before or after the word can be any.
			end := len(text) * 8 / 6
			words = append(words, encoded[(before*8+5)/6:end])
		}
	}
	g.Expect(string(policy)).To(ContainSubstring("'" + strings.Join(words, "|") + "'"))
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	class := func(has func(i int) bool) string {
		var out strings.Builder
		for i := range 64 {
			if has(i) {
				out.WriteByte(alphabet[i])
			}
		}
		return "[" + out.String() + "]"
	}
	for _, b := range []int{0, '!', '\\'} {
		hidden = append(hidden,
			alphabet[b>>2:b>>2+1]+class(func(i int) bool { return i>>4 == b&3 }),
			"."+class(func(i int) bool { return i&15 == b>>4 })+class(func(i int) bool { return i>>2 == b&15 }),
			".."+class(func(i int) bool { return i&3 == b>>6 })+alphabet[b&63:b&63+1])
	}
	g.Expect(string(policy)).To(ContainSubstring("'^(?:....)*(?:" + strings.Join(hidden, "|") + ")'"))
}
