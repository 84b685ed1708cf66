package rigged

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/stategraft/stategraft/certs"
	"github.com/stategraft/stategraft/webhook"
)

// Webhook is the webhook's process. It can be stopped and started again, on the
// same port, as a Deployment does it behind a Service.
type Webhook struct {
	process
	CA         []byte // PEM, signs its serving certificate (with a controller: at the start)
	ConfigFile string // path of its configuration file

	serverName string // in its certificate
	kubeconfig string
	certDir    string
	port       int
}

// URL is where the API server calls.
func (w *Webhook) URL() string { return "https://" + address(w.port) + webhook.Path }

// Client is an HTTP client that trusts the webhook's certificate, and speaks
// HTTP/2 to it, as the API server does.
func (w *Webhook) Client() *http.Client {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(w.CA)
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: pool, ServerName: w.serverName, MinVersion: tls.VersionTLS13},
		ForceAttemptHTTP2: true}}
}

// configFile is the configuration that webhook and controllers share.
func (r *Rig) configFile() string { return filepath.Join(r.dir, "config.yaml") }

// configure writes it; an empty one has the defaults, in a file that can be changed.
func (r *Rig) configure(config string) error {
	if config == "" {
		config = "apiVersion: " + webhook.ConfigVersion + "\nkind: " + webhook.ConfigKind + "\n"
	}
	if err := os.WriteFile(r.configFile(), []byte(config), 0o600); err != nil {
		return fmt.Errorf("writing the webhook's configuration: %w", err)
	}
	return nil
}

// startWebhook starts it. With a controller its certificate is that of the controller,
// else one made here.
func (r *Rig) startWebhook(ctx context.Context) (err error) {
	w := &Webhook{process: process{name: "the webhook", program: r.Program("stategraft")},
		ConfigFile: r.configFile(), certDir: filepath.Join(r.dir, "certs")}
	w.args = w.arguments
	if r.Controller != nil {
		w.serverName = webhookAccount + "." + homeNamespace + ".svc"
		if w.CA, err = r.mountSecret(ctx, w.certDir); err != nil {
			return err
		}
	} else if err := w.makeCertificate(); err != nil {
		return err
	}
	if w.kubeconfig, err = r.account(ctx, webhookAccount); err != nil {
		return err
	}
	if err := w.startOnFreePorts(ctx, &w.port); err != nil {
		return err
	}
	r.Webhook = w
	return nil
}

func (w *Webhook) makeCertificate() error {
	w.serverName = loopback
	pair, err := certs.SelfSigned([]string{loopback}, 24*time.Hour)
	if err != nil {
		return fmt.Errorf("making the webhook's certificate: %w", err)
	}
	w.CA = pair.CA
	return pair.Write(w.certDir)
}

func (w *Webhook) arguments() []string {
	return append([]string{"webhook", "--cert-dir", w.certDir, "--config", w.ConfigFile,
		"--host", loopback, "--port", strconv.Itoa(w.port),
		"--drain", "0s"}, // nobody has to hear of its end before it ends
		w.common(w.kubeconfig)...)
}
