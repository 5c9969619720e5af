// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// canary is the value of each secret field of a kubeconfig.
const canary = "canary-5a90"

const server, token = "server: 'https://" + canary + ".example:6443'", "token: " + canary

// file has the given cluster and user, in YAML's flow style.
func file(cluster, user string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Config
current-context: admin
contexts: [{name: admin, context: {cluster: c, user: u, namespace: apps}}]
clusters: [{name: c, cluster: {%s}}]
users: [{name: u, user: {%s}}]
`, cluster, user)
}

// readable is a file that exists, so that a refusal is not caused by a missing file.
func readable(t testing.TB, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// reduced is the minimal form of a kubeconfig, with further fields of its cluster and user.
func reduced(beforeServer, afterServer, user string) string {
	return `apiVersion: v1
clusters:
- cluster:
` + beforeServer + `    server: https://` + canary + `.example:6443
` + afterServer + `  name: c
contexts:
- context:
    cluster: c
    namespace: apps
    user: u
  name: admin
current-context: admin
kind: Config
users:
- name: u
  user:
` + user + `    token: ` + canary + "\n"
}

// TestMinimal keeps what reaches an API server, and drops what nothing reads, such as what only another context needs.
func TestMinimal(t *testing.T) {
	extension := "extensions: [{name: x, extension: {a: b}}]"
	authority := base64.StdEncoding.EncodeToString([]byte("CERTIFICATE"))
	tests := map[string]struct{ config, want string }{
		"all that is kept": {
			config: file(server+", tls-server-name: api, certificate-authority-data: "+authority, token+", client-certificate-data: Yw==, client-key-data: aw=="),
			want: reduced("    certificate-authority-data: "+authority+"\n", "    tls-server-name: api\n",
				"    client-certificate-data: Yw==\n    client-key-data: aw==\n"),
		},
		"all that is dropped": {
			config: strings.NewReplacer(
				"contexts: [", "preferences: {colors: true}\n"+extension+"\nnovel: field\ncontexts: [{name: other, context: {cluster: other, user: other}}, ",
				"clusters: [", "clusters: [{name: other, cluster: {server: 'https://a', proxy-url: 'http://a'}}, ",
				"users: [", "users: [{name: other, user: {tokenFile: /etc/hostname}}, ",
			).Replace(file(server+", disable-compression: true, novel: field, "+extension, token+", "+extension)) + "# a comment\n",
			want: reduced("", "", ""),
		},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			got, err := Minimal([]byte(test.config))
			if err != nil || strings.Replace(string(got), "preferences: {}\n", "", 1) != test.want {
				t.Errorf("%v\n%s\nwant\n%s", err, got, test.want)
			}
			again, err := Minimal(got)
			if err != nil || !bytes.Equal(again, got) {
				t.Errorf("reduced again: %v\n%s", err, again)
			}
		})
	}
}

// TestOnlyContext: a kubeconfig that chooses none of its contexts is used if it has only one, because a customer cannot correct the
// portal's kubeconfig. Of several contexts, none is guessed.
func TestOnlyContext(t *testing.T) {
	chosen := file(server, token)
	want, err := Minimal([]byte(chosen))
	if err != nil {
		t.Fatal(err)
	}
	for title, unchosen := range map[string]string{"missing": "", "empty": `current-context: ""`} {
		config := strings.Replace(chosen, "current-context: admin", unchosen, 1)
		if got, err := Minimal([]byte(config)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v\n%s", title, err, got)
		}
		if got, err := RESTConfig([]byte(config)); err != nil || got.BearerToken != canary {
			t.Errorf("%s: no connection can be made: %v", title, err)
		}
		several := strings.Replace(config, "contexts: [", "contexts: [{name: other, context: {cluster: c, user: u}}, ", 1)
		if got, err := Minimal([]byte(several)); err == nil {
			t.Errorf("%s: one of two contexts was guessed:\n%s", title, got)
		}
	}
}

// TestRefuses: a kubeconfig that reads files, runs commands or leads elsewhere is refused, and the error contains nothing of it.
func TestRefuses(t *testing.T) {
	name := readable(t, canary)
	tests := map[string]string{
		"nothing":                  "",
		"text":                     canary,
		"another document":         "apiVersion: v1\nkind: Secret\nstringData: {password: " + canary + "}\n",
		"no YAML":                  "{" + canary + ": [",
		"too much":                 file(server, token) + strings.Repeat("# "+canary+"\n", maxSize/len(canary)),
		"no context":               strings.Replace(file(server, token), "current-context: admin", "current-context: "+canary, 1),
		"no user":                  strings.Replace(file(server, token), "users: [{name: u,", "users: [{name: "+canary+",", 1),
		"no cluster":               strings.Replace(file(server, token), "clusters: [{name: c,", "clusters: [{name: "+canary+",", 1),
		"two users of one name":    strings.Replace(file(server, token), "users: [", "users: [{name: u, user: {"+token+"}}, ", 1),
		"no server":                file("tls-server-name: "+canary, token),
		"no host":                  file("server: 'https://'", token),
		"no scheme":                file("server: '"+canary+".example:6443'", token),
		"plain http":               file("server: 'http://"+canary+":8080'", token),
		"a password in the server": file("server: 'https://"+canary+":"+canary+"@a.example'", token),
		"no verification":          file(server+", insecure-skip-tls-verify: true", token),
		"a proxy":                  file(server+", proxy-url: 'http://"+canary+":3128'", token),
		"a CA file":                file(server+", certificate-authority: "+name, token),
		"a CA file beside data":    file(server+", certificate-authority-data: Yw==, certificate-authority: "+name, token),
		"a token's file":           file(server, "tokenFile: "+name),
		"a token and its file":     file(server, token+", tokenFile: "+name),
		"a key written otherwise":  file(server, `"token\u0046ile": `+name),
		"a certificate's file":     file(server, "client-certificate: "+name+", client-key-data: aw=="),
		"a key's file":             file(server, "client-certificate-data: Yw==, client-key: "+name),
		"a command":                file(server, "exec: {apiVersion: client.authentication.k8s.io/v1, command: "+canary+", interactiveMode: Never}"),
		"an auth plugin":           file(server, "auth-provider: {name: oidc, config: {idp-issuer-url: "+canary+"}}"),
		"a user and password":      file(server, "username: a, password: "+canary),
		"another user":             file(server, token+", as: "+canary),
		"another user's id":        file(server, token+", as-uid: "+canary),
		"another group":            file(server, token+", as-groups: ["+canary+"]"),
		"another user's extra":     file(server, token+", as-user-extra: {a: ["+canary+"]}"),
	}
	for title, config := range tests {
		t.Run(title, func(t *testing.T) {
			minimal, err := Minimal([]byte(config))
			if err == nil {
				t.Fatalf("accepted:\n%s", minimal)
			}
			if strings.Contains(err.Error(), canary) || strings.Contains(err.Error(), name) {
				t.Errorf("the error shows the content: %v", err)
			}
			if _, err := RESTConfig([]byte(config)); err == nil {
				t.Error("a REST config is made of it")
			}
		})
	}
}

// TestRESTConfigRefuses: certificates and keys are read before they are needed.
func TestRESTConfigRefuses(t *testing.T) {
	for title, config := range map[string]string{
		"no key pair":  file(server, "client-certificate-data: Yw==, client-key-data: aw=="),
		"no key":       file(server, "client-certificate-data: Yw=="),
		"no authority": file(server+", certificate-authority-data: Yw==", token),
	} {
		if _, err := RESTConfig([]byte(config)); err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: %v", title, err)
		}
	}
}

// FuzzMinimal: for every content of a Secret, the result is minimal already, leads to an https server, and reads and runs
// nothing.
func FuzzMinimal(f *testing.F) {
	for _, user := range []string{token, "tokenFile: /etc/hostname", `"token\u0046ile": /etc/hostname`, "exec: {command: a}", "username: a", "as: a"} {
		f.Add([]byte(file(server, user)))
	}
	for _, cluster := range []string{"proxy-url: 'http://a'", "certificate-authority: /etc/hostname", "insecure-skip-tls-verify: true", "tls-server-name: a"} {
		f.Add([]byte(file(server+", "+cluster, token)))
	}
	f.Add([]byte(strings.Replace(file(server, token), "current-context: admin", "", 1)))
	f.Add([]byte(`{"apiVersion":"v1","kind":"Config","current-context":"","contexts":[{"name":"","context":{}}],"clusters":[{"name":"","cluster":{"server":"https://a"}}],"users":[{"name":"","user":{}}]}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		minimal, err := Minimal(content)
		if err != nil {
			return
		}
		again, err := Minimal(minimal)
		if err != nil || !bytes.Equal(again, minimal) {
			t.Errorf("%v: it is not reduced:\n%s\n%s", err, minimal, again)
		}
		config, err := clientcmd.RESTConfigFromKubeConfig(minimal)
		if err != nil {
			return // RESTConfig says so
		}
		if server, err := url.Parse(config.Host); err != nil || server.Scheme != "https" {
			t.Errorf("server %s: %v", config.Host, err)
		}
		if files := config.BearerTokenFile + config.CAFile + config.CertFile + config.KeyFile; files != "" || reachesOut(config) {
			t.Errorf("%s", config)
		}
	})
}

func reachesOut(c *rest.Config) bool {
	return c.Proxy != nil || c.ExecProvider != nil || c.AuthProvider != nil || c.Insecure || c.Username+c.Password+c.Impersonate.UserName != ""
}
