// SPDX-License-Identifier: Apache-2.0

package kubeserver

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// The lifetimes are those usual in Kubernetes. Both are longer than any run of the emulator.
const (
	caLifetime   = 10 * 365 * 24 * time.Hour
	leafLifetime = 365 * 24 * time.Hour
	// backdate allows for clocks that run a little behind.
	backdate = 5 * time.Minute
)

// CA is a certificate authority whose key is only in memory.
type CA struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// Pair is a certificate and its private key, PEM encoded.
type Pair struct {
	Cert, Key []byte
}

// NewCA returns an authority with a new key.
func NewCA(name string) (*CA, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		NotAfter:              time.Now().Add(caLifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	authority := &CA{cert: template, key: key}
	authority.cert, err = authority.sign(template, key)
	return authority, err
}

// PEM returns the authority's certificate, which clients trust.
func (ca *CA) PEM() []byte { return encode(ca.cert) }

// Serve issues a serving certificate for the given host names and IP addresses.
func (ca *CA) Serve(name string, hosts ...string) (Pair, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	slices.Sort(hosts)
	for _, host := range slices.Compact(hosts) {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return ca.issue(template)
}

// Client issues a client certificate for a user. Kubernetes reads the organizations as groups.
func (ca *CA) Client(user string, groups ...string) (Pair, error) {
	return ca.ClientFor(leafLifetime, user, groups...)
}

// ClientFor issues a client certificate for a user that expires after the lifetime.
func (ca *CA) ClientFor(lifetime time.Duration, user string, groups ...string) (Pair, error) {
	return ca.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		NotAfter:    time.Now().Add(lifetime),
	})
}

// WriteTo writes the pair to dir as NAME.crt and NAME.key, readable only by the current user.
func (p Pair) WriteTo(dir, name string) error {
	if err := os.WriteFile(filepath.Join(dir, name+".crt"), p.Cert, 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".key"), p.Key, 0o600)
}

func (ca *CA) issue(template *x509.Certificate) (Pair, error) {
	key, err := newKey()
	if err != nil {
		return Pair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(leafLifetime)
	}
	certificate, err := ca.sign(template, key)
	if err != nil {
		return Pair{}, err
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{Cert: encode(certificate), Key: keyPEM}, nil
}

// sign completes the template and signs it for the key.
func (ca *CA) sign(template *x509.Certificate, key crypto.Signer) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-backdate)
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.key)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate of %s: %w", template.Subject.CommonName, err)
	}
	return x509.ParseCertificate(der)
}

func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

func encode(certificate *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: certificate.Raw})
}
