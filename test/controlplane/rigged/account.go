package rigged

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"
)

// The webhook's namespace and ServiceAccount in deploy/webhook.yaml.
const (
	homeNamespace = "stategraft"
	accountName   = "stategraft-webhook"
)

// account makes the webhook's ServiceAccount with its roles, as they are
// deployed, and answers the path of a kubeconfig for it. A right that the
// webhook needs and the manifest lacks shows here and not in a cluster.
func (r *Rig) account(ctx context.Context) (string, error) {
	manifest, err := os.ReadFile(filepath.Join(r.Root, "deploy", "webhook.yaml"))
	if err != nil {
		return "", fmt.Errorf("reading the webhook's manifest: %w", err)
	}
	rights, err := selectKinds(manifest, "Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
	if err != nil {
		return "", fmt.Errorf("reading the webhook's manifest: %w", err)
	}
	if _, err := r.Kubectl(ctx, bytes.NewReader(rights), "apply", "-f", "-"); err != nil {
		return "", fmt.Errorf("making the webhook's ServiceAccount: %w", err)
	}
	seconds := int64(24 * 60 * 60)
	token, err := r.Client.CoreV1().ServiceAccounts(homeNamespace).CreateToken(ctx, accountName,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("making a token for the webhook: %w", err)
	}
	rest := r.Config()
	const name = "webhook"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: rest.Host, CertificateAuthorityData: rest.CAData}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	path := filepath.Join(r.dir, "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return "", fmt.Errorf("writing the webhook's kubeconfig: %w", err)
	}
	return path, nil
}

// selectKinds keeps the YAML documents of the given kinds.
func selectKinds(manifest []byte, kinds ...string) ([]byte, error) {
	var kept bytes.Buffer
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifest)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return kept.Bytes(), nil
		}
		if err != nil {
			return nil, err
		}
		var head metav1.TypeMeta
		if err := yaml.Unmarshal(document, &head); err != nil {
			return nil, err
		}
		if slices.Contains(kinds, head.Kind) {
			kept.WriteString("---\n")
			kept.Write(document)
		}
	}
}
