package bed

// One cluster: its files, its API server, its controller manager, its users.

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
)

// Users by token. Their rights: vidra-hub and alice are cluster-admin, limited
// has none until a test gives it some.
const hubUser, aliceUser, limitedUser = "vidra-hub", "alice", "limited"

// auditPolicy records who did what to which object, without bodies, once the
// answer is known (a watch has a line for its start and one for its end).
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
`

// cluster is an API server with what belongs to it.
type cluster struct {
	name        string
	dir         string
	controllers string // empty: no controller manager
	keys        pki
	tokens      map[string]string
	url         string
	server      *child
	manager     *child
}

// newCluster writes all files that do not depend on the port.
func newCluster(dir, name, controllers string) (*cluster, error) {
	keys, err := newPKI(name)
	if err != nil {
		return nil, err
	}
	c := &cluster{name: name, dir: dir, controllers: controllers, keys: keys, tokens: map[string]string{}}
	var lines strings.Builder
	for i, user := range []string{hubUser, aliceUser, limitedUser} {
		c.tokens[user] = rand.Text()
		fmt.Fprintf(&lines, "%s,%s,%d\n", c.tokens[user], user, i+1)
	}
	if err := keys.write(filepath.Join(dir, "pki")); err != nil {
		return nil, err
	}
	return c, writeFiles(dir, map[string][]byte{
		"tokens.csv":        []byte(lines.String()),
		"audit-policy.yaml": []byte(auditPolicy),
	})
}

func (c *cluster) path(name string) string { return filepath.Join(c.dir, name) }

// serverArgs are kube-apiserver's flags. Throttling is off, so that a benchmark
// measures its subject and not the server's fairness queues.
func (c *cluster) serverArgs(etcdURL string, port int) []string {
	return []string{
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port),
		// Without these the server looks for the machine's own address, and tries
		// to publish loopback as the endpoint of a Service, which is not valid.
		"--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none",
		"--etcd-servers=" + etcdURL,
		"--etcd-prefix=/" + c.name,
		"--cert-dir=" + c.path("pki"),
		"--tls-cert-file=" + c.path("pki/apiserver.crt"),
		"--tls-private-key-file=" + c.path("pki/apiserver.key"),
		"--client-ca-file=" + c.path("pki/ca.crt"),
		"--token-auth-file=" + c.path("tokens.csv"),
		"--authorization-mode=RBAC",
		"--disable-admission-plugins=ServiceAccount",
		// Some distributions have it: who owns an object is then a matter of rights.
		"--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.path("pki/sa.pub"),
		"--service-account-signing-key-file=" + c.path("pki/sa.key"),
		"--service-cluster-ip-range=10.0.0.0/16",
		"--allow-privileged=true",
		"--enable-priority-and-fairness=false",
		"--max-requests-inflight=4000",
		"--max-mutating-requests-inflight=2000",
		"--profiling=false",
		"--audit-policy-file=" + c.path("audit-policy.yaml"),
		"--audit-log-path=" + c.path("audit.log"),
		"--audit-log-mode=blocking",
		"--audit-log-maxsize=100000", // megabytes: never rotated
	}
}

// startServer returns when the API server is ready and its first namespaces exist.
func (c *cluster) startServer(ctx context.Context, procs *children, free *ports, etcdURL string) error {
	var lost error
	for range attempts {
		port, err := free.free()
		if err != nil {
			return err
		}
		c.url = fmt.Sprintf("https://127.0.0.1:%d", port)
		c.server, err = procs.start(c.name+": kube-apiserver", c.path("apiserver.log"), "kube-apiserver", c.serverArgs(etcdURL, port))
		if err != nil {
			return err
		}
		lost = c.awaitServer(ctx)
		if lost == nil || !c.server.ended() || !c.server.portTaken() {
			return lost
		}
	}
	return lost
}

func (c *cluster) awaitServer(ctx context.Context) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	for _, path := range []string{"/readyz", "/api/v1/namespaces/default", "/api/v1/namespaces/kube-system"} {
		if err := api.await(ctx, c.server, path, http.StatusOK); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) client() (*client, error) {
	return newClient(c.url, c.keys.ca, c.keys.admin)
}

// bindUsers makes vidra-hub and alice cluster-admin.
func (c *cluster) bindUsers(ctx context.Context) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	for _, user := range []string{hubUser, aliceUser} {
		err := api.create(ctx, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", map[string]any{
			"metadata": map[string]any{"name": "testbed-" + user},
			"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
			"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}},
		})
		if err != nil {
			return fmt.Errorf("%s: bind %s to cluster-admin: %w", c.name, user, err)
		}
	}
	return nil
}

// startManager starts the controller manager, if the cluster has one, and
// returns when it works.
func (c *cluster) startManager(ctx context.Context, procs *children) error {
	if c.controllers == "" {
		return nil
	}
	config := c.path("controller-manager.kubeconfig")
	who := credential{user: "controller-manager", cert: c.keys.controllers}
	if err := writeKubeconfig(config, c.access(who)); err != nil {
		return err
	}
	var err error
	c.manager, err = procs.start(c.name+": kube-controller-manager", c.path("controller-manager.log"), "kube-controller-manager", []string{
		"--kubeconfig=" + config,
		"--controllers=" + c.controllers,
		// For serviceaccount-token-controller, which fills Secrets of that type.
		"--service-account-private-key-file=" + c.path("pki/sa.key"),
		"--root-ca-file=" + c.path("pki/ca.crt"),
		"--leader-elect=false",
		"--secure-port=0", // serves nothing, needs no port
		"--profiling=false",
		"--kube-api-qps=1000",
		"--kube-api-burst=2000",
	})
	if err != nil {
		return err
	}
	if !slices.Contains(strings.Split(c.controllers, ","), "garbagecollector") {
		return nil
	}
	return c.awaitManager(ctx)
}

// awaitManager makes an object whose owner does not exist, and waits for the
// garbage collector to delete it. (Deleting a namespace would show as much, but
// takes 5 s: pkg/controller/namespace, namespaceDeletionGracePeriod.)
func (c *cluster) awaitManager(ctx context.Context) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	const configMaps, probe = "/api/v1/namespaces/default/configmaps", "testbed-probe"
	err = api.create(ctx, configMaps, map[string]any{"metadata": map[string]any{
		"name": probe,
		"ownerReferences": []any{map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": rand.Text(),
		}},
	}})
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	return api.await(ctx, c.manager, configMaps+"/"+probe, http.StatusNotFound)
}

func (c *cluster) access(who credential) access {
	return access{context: c.name, url: c.url, ca: c.keys.ca, who: who}
}

func (c *cluster) admin() access {
	return c.access(credential{user: "admin", cert: c.keys.admin})
}

// writeKubeconfigs writes one file for each user and returns their paths.
func (c *cluster) writeKubeconfigs() (map[string]string, error) {
	all := []access{c.admin()}
	for user, token := range c.tokens {
		all = append(all, c.access(credential{user: user, token: token}))
	}
	paths := map[string]string{}
	for _, a := range all {
		path := c.path(a.who.user + ".kubeconfig")
		if err := writeKubeconfig(path, a); err != nil {
			return nil, err
		}
		paths[a.who.user] = path
	}
	return paths, nil
}
