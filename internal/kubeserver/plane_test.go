// SPDX-License-Identifier: Apache-2.0

package kubeserver

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
)

func TestCertificatesAreGoodForWhatTheyAreFor(t *testing.T) {
	ca, err := NewCA("test CA")
	if err != nil {
		t.Fatal(err)
	}
	serving, err := ca.Serve("server", "127.0.0.1", "portal.example", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	user, err := ca.Client("jane", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewCA("test CA")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		pair  Pair
		ca    *CA
		host  string
		usage x509.ExtKeyUsage
		valid bool
	}{
		"server by address":    {serving, ca, "127.0.0.1", x509.ExtKeyUsageServerAuth, true},
		"server by name":       {serving, ca, "portal.example", x509.ExtKeyUsageServerAuth, true},
		"server by other name": {serving, ca, "other.example", x509.ExtKeyUsageServerAuth, false},
		"server as client":     {serving, ca, "", x509.ExtKeyUsageClientAuth, false},
		"client":               {user, ca, "", x509.ExtKeyUsageClientAuth, true},
		"client as server":     {user, ca, "", x509.ExtKeyUsageServerAuth, false},
		"another authority's":  {user, other, "", x509.ExtKeyUsageClientAuth, false},
	} {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(test.ca.PEM())
		options := x509.VerifyOptions{Roots: roots, DNSName: test.host, KeyUsages: []x509.ExtKeyUsage{test.usage}}
		if _, err := certificate(t, test.pair).Verify(options); (err == nil) != test.valid {
			t.Errorf("%s: verified: %v, want valid %v", name, err, test.valid)
		}
	}
	if diff := cmp.Diff([]string{"system:masters"}, certificate(t, user).Subject.Organization); diff != "" {
		t.Error(diff)
	}
	if left := time.Until(certificate(t, user).NotAfter); left < 300*24*time.Hour {
		t.Errorf("the client certificate expires in %v", left)
	}
	if _, err := tls.X509KeyPair(user.Cert, user.Key); err != nil {
		t.Errorf("key and certificate do not belong together: %v", err)
	}
}

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

func certificate(t *testing.T, pair Pair) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(pair.Cert)
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
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
	server, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() { // an echo for each connection
		for {
			connection, err := server.Accept()
			if err != nil {
				return
			}
			go func() {
				defer connection.Close()
				_, _ = io.Copy(connection, connection)
			}()
		}
	}()
	d, err := openDoor(net.JoinHostPort(loopback, "0"), server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	address := d.listener.Addr().String()
	user, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer user.Close()
	answers := bufio.NewReader(user)
	for _, line := range []string{"first\n", "second\n"} {
		if _, err := fmt.Fprint(user, line); err != nil {
			t.Fatal(err)
		}
		if answer, err := answers.ReadString('\n'); err != nil || answer != line {
			t.Fatalf("answer %q, error %v", answer, err)
		}
	}

	d.shut()
	if _, err := answers.ReadByte(); err == nil {
		t.Error("the connection is still open")
	}
	if _, err := net.Dial("tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("error %v, want a refused connection", err)
	}
	d.shut()
	(*door)(nil).shut()
}
