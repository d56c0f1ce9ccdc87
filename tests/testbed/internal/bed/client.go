package bed

// The few calls that `up` makes to an API server, as its administrator.

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

type client struct {
	url  string
	http *http.Client
}

func newClient(url string, ca []byte, admin keyPair) (*client, error) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	cert, err := tls.X509KeyPair(admin.cert, admin.key)
	if err != nil {
		return nil, err
	}
	return &client{url: url, http: &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{cert}},
		},
	}}, nil
}

// call answers the status code; a code is not an error.
func (c *client) call(ctx context.Context, method, path string, object any) (int, string, error) {
	var body io.Reader
	if object != nil {
		content, err := json.Marshal(object)
		if err != nil {
			return 0, "", err
		}
		body = bytes.NewReader(content)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, body)
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	return response.StatusCode, string(answer), err
}

// create posts an object; the namespace of a new server may still be missing, so
// the caller waits for that first.
func (c *client) create(ctx context.Context, path string, object any) error {
	code, answer, err := c.call(ctx, http.MethodPost, path, object)
	if err != nil {
		return err
	}
	if code != http.StatusCreated {
		return fmt.Errorf("POST %s: %d: %s", path, code, answer)
	}
	return nil
}

// await polls path until its status code is want, or the server's process ended.
func (c *client) await(ctx context.Context, server *child, path string, want int) error {
	var last string
	for {
		code, answer, err := c.call(ctx, http.MethodGet, path, nil)
		switch {
		case err == nil && code == want:
			return nil
		case err != nil:
			last = err.Error()
		default:
			last = fmt.Sprintf("%d: %s", code, answer)
		}
		select {
		case <-server.done:
			return server.failure()
		case <-ctx.Done():
			return fmt.Errorf("%s: GET %s did not become %d (%w); last: %s", server.what, path, want, context.Cause(ctx), last)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
