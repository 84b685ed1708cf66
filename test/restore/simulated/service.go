package simulated

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/api/node"
	"github.com/stategraft/stategraft/patches"
)

// service is the node API of a pod, at its address.
type service struct {
	server *http.Server
	listen net.Listener
}

func (s *service) stop() {
	if s != nil {
		_ = s.server.Close()
	}
}

// serve begins to answer for a pod; nil where the pod has no such port.
func (n *Node) serve(p *pod) *service {
	port, encrypted := portAndTLS(p.object)
	if port == 0 {
		return nil
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(p.address, strconv.Itoa(int(port))))
	if err != nil {
		n.Timeline.Add(p.object.Namespace, "node: pod %s: no node API: %v", p.object.Name, err)
		return nil
	}
	if encrypted {
		listener = tls.NewListener(listener, n.encryption(p.object.Namespace))
	}
	mux := http.NewServeMux()
	s := &service{listen: listener, server: &http.Server{Handler: n.alive(p, mux), ReadHeaderTimeout: 10 * time.Second,
		ErrorLog: log.New(io.Discard, "", 0)}}
	mux.HandleFunc("GET "+node.PathReport, func(w http.ResponseWriter, _ *http.Request) { answer(w, n.told(p)) })
	mux.HandleFunc("GET "+node.PathBackups, func(w http.ResponseWriter, _ *http.Request) { answer(w, p.backups.list()) })
	mux.HandleFunc("GET "+node.PathBackup, func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Query().Get("name")
		b, ok := p.backups.find(name)
		if !ok { // one that is not there has no members
			b.Name, b.Prefix = name, Prefix
		}
		answer(w, b)
	})
	go func() { _ = s.server.Serve(listener) }()
	return s
}

// alive answers only while a container runs that serves.
func (n *Node) alive(p *pod, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.mu.Lock()
		serves := p.serves() && (p.gone.IsZero() || time.Now().Before(p.gone))
		n.mu.Unlock()
		if !serves {
			panic(http.ErrAbortHandler) // as where nothing listens
		}
		w.Header().Set("Connection", "close") // or another pod of the address would be asked
		w.Header().Set("Content-Type", "application/json")
		next.ServeHTTP(w, r)
	})
}

func answer(w http.ResponseWriter, what any) { _ = json.NewEncoder(w).Encode(what) }

// told is what the pod says of itself.
func (n *Node) told(p *pod) node.Report {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := node.Report{Node: p.object.Name, Prefix: Prefix, Size: 100 << 30, Free: 60 << 30,
		Done: append([]node.Done(nil), p.volume.Done...), Previous: p.volume.kept()}
	if _, run := p.restoring(); run != nil {
		r.Restore = run.progress(time.Now())
	}
	return r
}

// portAndTLS is where the containers of a pod answer, and whether with TLS.
func portAndTLS(object *corev1.Pod) (port int32, encrypted bool) {
	for _, list := range [][]corev1.Container{object.Spec.Containers, object.Spec.InitContainers} {
		for i := range list {
			if portOf(&list[i]) == 0 {
				continue
			}
			port = portOf(&list[i])
			for _, m := range list[i].VolumeMounts {
				encrypted = encrypted || m.MountPath == patches.DirGRPCTLS
			}
		}
	}
	return port, encrypted
}

// pair is the certificate of a namespace's services, as it was read last.
type pair struct {
	read   time.Time
	config *tls.Config
}

// encryption is mutual TLS 1.3 with the Secret of the namespace, read anew now and
// then, as the agent does with the mounted files.
func (n *Node) encryption(namespace string) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		n.mu.Lock()
		known := n.authority[namespace]
		n.mu.Unlock()
		if known != nil && time.Since(known.read) < 5*time.Second {
			return known.config, nil
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		secret, err := n.client.CoreV1().Secrets(namespace).Get(ctx, "stategraft-grpc", metav1.GetOptions{})
		if err != nil && known != nil {
			return known.config, nil // as the files that are mounted
		}
		if err != nil {
			return nil, err
		}
		certificate, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"])
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(secret.Data["ca.crt"])
		config := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{certificate},
			ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
		n.mu.Lock()
		n.authority[namespace] = &pair{time.Now(), config}
		n.mu.Unlock()
		return config, nil
	}}
}
