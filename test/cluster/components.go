package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	free "github.com/stategraft/stategraft/test/ports"
)

const (
	loopback     = "127.0.0.1"
	serviceRange = "10.96.0.0/16"
	apiServiceIP = "10.96.0.1" // the Service "kubernetes" gets the range's first address
)

// component is a server of the control plane.
type component struct {
	name   string
	args   []string
	health string // URL that answers 200 once it works; empty where another sign tells
}

// ports are the TCP ports of one control plane.
type ports struct {
	etcdClient, etcdPeer, apiServer, controllerManager, scheduler int
}

// components answers the servers by stages. Those of a stage start together,
// once those of the stage before work; they stop in reverse order. A node's
// servers are further stages: see node.go.
func components(s state, p ports, opts Options) [][]component {
	etcdURL := "http://" + address(p.etcdClient)
	peerURL := "http://" + address(p.etcdPeer)
	// All of them serve on the loopback address, so one certificate is enough.
	serving := func(port int) []string {
		return []string{
			"--bind-address=" + loopback,
			"--secure-port=" + strconv.Itoa(port),
			"--tls-cert-file=" + s.pki("server.crt"),
			"--tls-private-key-file=" + s.pki("server.key"),
		}
	}
	etcd := component{Etcd, []string{
		"--name=rig",
		"--data-dir=" + s.etcdData(),
		"--listen-client-urls=" + etcdURL,
		"--advertise-client-urls=" + etcdURL,
		"--listen-peer-urls=" + peerURL,
		"--initial-advertise-peer-urls=" + peerURL,
		"--initial-cluster=rig=" + peerURL,
		"--unsafe-no-fsync", // a rig's data need not survive a power failure
	}, etcdURL + "/readyz"}

	// The default admission plugins are on unless switched off, so no flag names
	// them.
	apiServer := component{APIServer, append(serving(p.apiServer),
		"--etcd-servers="+etcdURL,
		"--client-ca-file="+s.pki("ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+s.pki("sa.key"), // its public half verifies
		"--service-account-signing-key-file="+s.pki("sa.key"),
		"--authorization-mode=Node,RBAC",
		// For logs, exec and port forwarding, where there is a node.
		"--kubelet-client-certificate="+s.pki("kubelet-client.crt"),
		"--kubelet-client-key="+s.pki("kubelet-client.key"),
		"--kubelet-preferred-address-types=InternalIP",
		"--service-cluster-ip-range="+serviceRange,
		"--allow-privileged=true",
		// Ends the clients' watches when the server is to stop. Otherwise it waits
		// a minute for them to end by themselves.
		"--shutdown-watch-termination-grace-period=1s",
		// Given, so that a machine without a default route will do. It cannot be
		// the endpoint of the Service "kubernetes", where loopback is invalid.
		"--advertise-address="+loopback,
		"--endpoint-reconciler-type=none",
	), "https://" + address(p.apiServer) + "/readyz"}
	apiServer.args = append(apiServer.args, opts.ExtraAPIServerArgs...)

	// As kubeadm sets it up: pods made by a StatefulSet come from
	// system:serviceaccount:kube-system:statefulset-controller, and so on, which
	// is what a webhook or policy sees in a real cluster.
	controllerManager := component{ControllerManager, append(serving(p.controllerManager),
		"--kubeconfig="+s.kubeconfig(ControllerManager),
		"--use-service-account-credentials=true",
		"--service-account-private-key-file="+s.pki("sa.key"),
		"--root-ca-file="+s.pki("ca.crt"),
		"--cluster-signing-cert-file="+s.pki("ca.crt"),
		"--cluster-signing-key-file="+s.pki("ca.key"),
		"--leader-elect=false",
		// Each controller asks for a token of its own when it starts: with the
		// default of 20 requests a second the last one starts seconds later.
		"--kube-api-qps=1000",
		"--kube-api-burst=2000",
	), "https://" + address(p.controllerManager) + "/healthz"}

	scheduler := component{Scheduler, append(serving(p.scheduler),
		"--kubeconfig="+s.kubeconfig(Scheduler),
		"--leader-elect=false",
	), "https://" + address(p.scheduler) + "/healthz"}

	return [][]component{{etcd}, {apiServer}, {controllerManager, scheduler}}
}

// pickPorts answers ports that were free a moment ago, all different. Another
// program can be quicker to take one: see [Start].
func pickPorts() (ports, error) {
	var p ports
	all := []*int{&p.etcdClient, &p.etcdPeer, &p.apiServer, &p.controllerManager, &p.scheduler}
	first, err := free.Row(len(all))
	for i, port := range all {
		*port = first + i
	}
	return p, err
}

func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }

// writePKI makes the keys, certificates and kubeconfigs of a control plane.
func writePKI(s state, apiServer string) error {
	ca, err := newAuthority()
	if err != nil {
		return err
	}
	server, err := ca.server()
	if err != nil {
		return err
	}
	_, serviceAccountKey, err := newKey()
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"ca.crt": ca.certPEM, "ca.key": ca.keyPEM,
		"server.crt": server.certPEM, "server.key": server.keyPEM,
		"sa.key": serviceAccountKey,
	} {
		if err := writeSecret(s.pki(name), content); err != nil {
			return err
		}
	}
	kubeletClient, err := ca.client("kube-apiserver-kubelet-client")
	if err != nil {
		return err
	}
	if err := errors.Join(writeSecret(s.pki("kubelet-client.crt"), kubeletClient.certPEM), writeSecret(s.pki("kubelet-client.key"), kubeletClient.keyPEM)); err != nil {
		return err
	}
	// The users and groups that Kubernetes' own roles are bound to
	// (kubernetes.io/docs/reference/access-authn-authz/rbac).
	for _, user := range []struct{ path, name, group string }{
		{KubeconfigPath(s.dir), "rig-admin", "system:masters"},
		{s.kubeconfig(ControllerManager), "system:kube-controller-manager", ""},
		{s.kubeconfig(Scheduler), "system:kube-scheduler", ""},
		{s.kubeconfig(Kubelet), "system:node:" + NodeName, "system:nodes"},
		{s.kubeconfig(KubeProxy), "system:kube-proxy", ""},
		{s.kubeconfig(CoreDNS), "rig-dns", "system:masters"},
	} {
		var groups []string
		if user.group != "" {
			groups = []string{user.group}
		}
		pair, err := ca.client(user.name, groups...)
		if err != nil {
			return err
		}
		if err := writeKubeconfig(user.path, "rig", apiServer, ca.certPEM, pair); err != nil {
			return err
		}
	}
	return nil
}

// prober asks the servers of one control plane whether they work.
type prober struct{ client *http.Client }

// newProber makes a prober that presents the administrator's certificate: the
// API server lets nobody else ask before its roles exist.
func newProber(caPEM, certPEM, keyPEM []byte) (*prober, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(caPEM) {
		return nil, fmt.Errorf("the authority's certificate is not PEM")
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("loading the administrator's certificate: %w", err)
	}
	return &prober{&http.Client{
		Timeout: 5 * time.Second,
		Transport: &http.Transport{
			TLSClientConfig:   &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}},
			DisableKeepAlives: true, // an open connection delays the server's end
		},
	}}, nil
}

// await polls url until it answers 200, the process ends, or ctx is done.
func (pr *prober) await(ctx context.Context, url string, p *process) error {
	for {
		err := pr.once(ctx, url)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return p.failure()
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s to work (%w): %w; the last lines of its log:\n%s", p.name, context.Cause(ctx), err, fileTail(p.log))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (pr *prober) once(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := pr.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, resp.Status)
	}
	return nil
}
