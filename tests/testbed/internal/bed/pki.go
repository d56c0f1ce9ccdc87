package bed

// Keys and certificates of one cluster. Each cluster has its own CA, so that a
// kubeconfig of one is refused by the others.

import (
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
	"time"
)

// validity outlasts any test run; it begins a day early for clocks that differ.
const validity = 10 * 365 * 24 * time.Hour

// keyPair is a certificate with its key, both PEM.
type keyPair struct {
	cert, key []byte
}

// authority is a certificate authority that lives in memory only.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template, err := certTemplate(pkix.Name{CommonName: name})
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{cert: cert, key: key, pem: pemBlock("CERTIFICATE", der)}, nil
}

// serving issues a certificate for a server on loopback.
func (a *authority) serving(name string) (keyPair, error) {
	template, err := certTemplate(pkix.Name{CommonName: name})
	if err != nil {
		return keyPair{}, err
	}
	template.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	return a.issue(template)
}

// client issues a certificate that the API server takes as this user in
// system:masters.
func (a *authority) client(user string) (keyPair, error) {
	template, err := certTemplate(pkix.Name{CommonName: user, Organization: []string{"system:masters"}})
	if err != nil {
		return keyPair{}, err
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(template)
}

func (a *authority) issue(template *x509.Certificate) (keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return keyPair{}, err
	}
	keyPEM, err := privatePEM(key)
	return keyPair{cert: pemBlock("CERTIFICATE", der), key: keyPEM}, err
}

func certTemplate(subject pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial.Add(serial, big.NewInt(1)),
		Subject:      subject,
		NotBefore:    now.Add(-24 * time.Hour),
		NotAfter:     now.Add(validity),
	}, nil
}

func privatePEM(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pemBlock("PRIVATE KEY", der), nil
}

func pemBlock(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// pki is all that a cluster's programs and users need to know each other.
type pki struct {
	ca                          []byte
	serving, admin, controllers keyPair
	accountKey, accountPublic   []byte // service accounts' tokens
}

func newPKI(cluster string) (pki, error) {
	var p pki
	ca, err := newAuthority(cluster + "-ca")
	if err != nil {
		return p, err
	}
	p.ca = ca.pem
	if p.serving, err = ca.serving("kube-apiserver"); err != nil {
		return p, err
	}
	if p.admin, err = ca.client("admin"); err != nil {
		return p, err
	}
	if p.controllers, err = ca.client("system:kube-controller-manager"); err != nil {
		return p, err
	}
	account, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return p, err
	}
	if p.accountKey, err = privatePEM(account); err != nil {
		return p, err
	}
	public, err := x509.MarshalPKIXPublicKey(account.Public())
	if err != nil {
		return p, err
	}
	p.accountPublic = pemBlock("PUBLIC KEY", public)
	return p, nil
}

// write puts what the API server reads from files into dir.
func (p pki) write(dir string) error {
	return writeFiles(dir, map[string][]byte{
		"ca.crt":        p.ca,
		"apiserver.crt": p.serving.cert,
		"apiserver.key": p.serving.key,
		"sa.key":        p.accountKey,
		"sa.pub":        p.accountPublic,
	})
}

// writeFiles makes dir and its files, for the owner's eyes only.
func writeFiles(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}
