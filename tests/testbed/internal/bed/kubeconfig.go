package bed

// Kubeconfigs with everything inline, so that a test can put one into a Secret.

import (
	"os"

	"sigs.k8s.io/yaml"
)

// credential is how a user proves who they are: a token or a client certificate.
type credential struct {
	user  string
	token string
	cert  keyPair
}

// access is one context of a kubeconfig.
type access struct {
	context string // also the cluster's name
	url     string
	ca      []byte
	who     credential
}

// The file's shape is client-go's api/v1 Config; []byte fields become base64.
type kubeconfig struct {
	APIVersion     string         `json:"apiVersion"`
	Kind           string         `json:"kind"`
	CurrentContext string         `json:"current-context"`
	Clusters       []namedCluster `json:"clusters"`
	Users          []namedUser    `json:"users"`
	Contexts       []namedContext `json:"contexts"`
}

type namedCluster struct {
	Name    string `json:"name"`
	Cluster struct {
		Server string `json:"server"`
		CA     []byte `json:"certificate-authority-data"`
	} `json:"cluster"`
}

type namedUser struct {
	Name string `json:"name"`
	User struct {
		Token string `json:"token,omitempty"`
		Cert  []byte `json:"client-certificate-data,omitempty"`
		Key   []byte `json:"client-key-data,omitempty"`
	} `json:"user"`
}

type namedContext struct {
	Name    string `json:"name"`
	Context struct {
		Cluster string `json:"cluster"`
		User    string `json:"user"`
	} `json:"context"`
}

// kubeconfigYAML makes a file with one context for each access; the first is current.
func kubeconfigYAML(all ...access) ([]byte, error) {
	config := kubeconfig{APIVersion: "v1", Kind: "Config"}
	for i, a := range all {
		if i == 0 {
			config.CurrentContext = a.context
		}
		userName := a.context + "-" + a.who.user

		cluster := namedCluster{Name: a.context}
		cluster.Cluster.Server = a.url
		cluster.Cluster.CA = a.ca

		user := namedUser{Name: userName}
		user.User.Token = a.who.token
		user.User.Cert = a.who.cert.cert
		user.User.Key = a.who.cert.key

		context := namedContext{Name: a.context}
		context.Context.Cluster = a.context
		context.Context.User = userName

		config.Clusters = append(config.Clusters, cluster)
		config.Users = append(config.Users, user)
		config.Contexts = append(config.Contexts, context)
	}
	return yaml.Marshal(config)
}

func writeKubeconfig(path string, all ...access) error {
	content, err := kubeconfigYAML(all...)
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o600)
}
