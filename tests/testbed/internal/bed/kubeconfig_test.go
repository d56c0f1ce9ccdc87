package bed

// Kubeconfigs are read as client-go reads them, and their certificates fit.

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

func TestKubeconfigCarriesEverythingInline(t *testing.T) {
	keys, err := newPKI("berlin")
	if err != nil {
		t.Fatal(err)
	}
	content, err := kubeconfigYAML(
		access{context: "berlin", url: "https://127.0.0.1:1", ca: keys.ca, who: credential{user: "admin", cert: keys.admin}},
		access{context: "tokyo", url: "https://127.0.0.1:2", ca: keys.ca, who: credential{user: "alice", token: "secret"}},
	)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.Load(content)
	if err != nil {
		t.Fatal(err)
	}
	if err := clientcmd.Validate(*config); err != nil {
		t.Fatal(err)
	}
	berlin, err := clientcmd.NewDefaultClientConfig(*config, nil).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	if berlin.Host != "https://127.0.0.1:1" || berlin.BearerToken != "" || !bytes.Equal(berlin.CertData, keys.admin.cert) || !bytes.Equal(berlin.CAData, keys.ca) {
		t.Errorf("the current context is not the first: %+v", berlin)
	}
	tokyo, err := clientcmd.NewNonInteractiveClientConfig(*config, "tokyo", nil, nil).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	if tokyo.Host != "https://127.0.0.1:2" || tokyo.BearerToken != "secret" || tokyo.CertData != nil {
		t.Errorf("tokyo: %+v", tokyo)
	}
}

func TestCertificatesBelongToTheirClusterOnly(t *testing.T) {
	berlin, err := newPKI("berlin")
	if err != nil {
		t.Fatal(err)
	}
	tokyo, err := newPKI("tokyo")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(berlin.serving.cert, berlin.serving.key)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		ca   []byte
		host string
		fits bool
	}{
		{berlin.ca, "127.0.0.1", true},
		{berlin.ca, "localhost", true},
		{berlin.ca, "example.org", false},
		{tokyo.ca, "127.0.0.1", false},
	} {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(c.ca)
		_, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: c.host})
		if (err == nil) != c.fits {
			t.Errorf("%s: %v", c.host, err)
		}
	}
}
