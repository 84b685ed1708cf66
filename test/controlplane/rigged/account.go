package rigged

import (
	"bytes"
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/stategraft/stategraft/deploy"
)

// Our namespace and the ServiceAccounts of our processes, as they are deployed.
const (
	homeNamespace     = "stategraft"
	webhookAccount    = "stategraft-webhook"
	controllerAccount = "stategraft-controller"
)

// rights makes our namespace, the ServiceAccounts with their roles, and the
// objects that the processes keep their state in, as they are deployed. A right
// that a process needs and the manifest lacks shows here and not in a cluster.
func (r *Rig) rights(ctx context.Context) error {
	objects, err := deploy.Pick(deploy.SelfSigned, "Namespace", "CustomResourceDefinition", "ServiceAccount",
		"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
		"Secret", "ConfigMap", "Lease")
	if err != nil {
		return err
	}
	if _, err := r.Kubectl(ctx, bytes.NewReader(objects), "apply", "-f", "-"); err != nil {
		return fmt.Errorf("making the ServiceAccounts and their rights: %w", err)
	}
	return nil
}

// account answers the path of a kubeconfig for a ServiceAccount.
func (r *Rig) account(ctx context.Context, name string) (string, error) {
	return r.accountAt(ctx, name, "", name)
}

// accountAt answers one in a file of its own, for another address of the API server
// where one is given.
func (r *Rig) accountAt(ctx context.Context, name, server, file string) (string, error) {
	seconds := int64(24 * 60 * 60)
	token, err := r.Client.CoreV1().ServiceAccounts(homeNamespace).CreateToken(ctx, name,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("making a token for %s: %w", name, err)
	}
	rest := r.Config()
	if server != "" {
		rest.Host = server
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: rest.Host, CertificateAuthorityData: rest.CAData}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	path := r.kubeconfigFile(file)
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return "", fmt.Errorf("writing the kubeconfig of %s: %w", name, err)
	}
	return path, nil
}
