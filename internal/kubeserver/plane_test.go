// SPDX-License-Identifier: Apache-2.0

package kubeserver

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

func TestKubeconfigsNameTheHostThatTheirReadersReach(t *testing.T) {
	for bind, local := range map[string]string{"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "127.0.0.2": "127.0.0.2"} {
		p, err := New(Options{Name: "c-1", Dir: t.TempDir(), Bind: bind, Host: "portal.example"})
		if err != nil {
			t.Fatal(err)
		}
		content, err := p.Kubeconfig()
		if err != nil {
			t.Fatal(err)
		}
		for host, kubeconfig := range map[string][]byte{"portal.example": content, local: read(t, p.KubeconfigFile())} {
			config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
			if err != nil {
				t.Fatal(err)
			}
			if want := "https://" + HostPort(host, p.access.Load().port); config.Host != want {
				t.Errorf("Bind %q: host %s, want %s", bind, config.Host, want)
			}
		}
		if want := "https://" + HostPort(local, p.access.Load().port); p.Config().Host != want {
			t.Errorf("Bind %q: Config().Host is %s, want %s", bind, p.Config().Host, want)
		}
	}
}

// TestKeysArePrivate checks the mode of every file, because all of them hold keys or are next to keys.
func TestKeysArePrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "plane")
	if _, err := New(Options{Name: "c-1", Dir: dir}); err != nil {
		t.Fatal(err)
	}
	files := 0
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		files++
		return err
	})
	if err != nil || files < 5 {
		t.Errorf("%d files, error %v", files, err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// TestDoor checks that a door forwards in both directions, and that a shut door ends its connections and refuses new ones.
func TestDoor(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer server.Close()
	d, err := openDoor(net.JoinHostPort(loopback, "0"), server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + d.listener.Addr().String()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	d.shut()
	if _, err := io.ReadAll(response.Body); err == nil {
		t.Error("the answer ended although the server goes on")
	}
	if _, err := http.Get(url); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("error %v, want a refused connection", err)
	}
	d.shut()
	(*door)(nil).shut()
}
