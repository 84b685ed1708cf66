package certificates

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/stategraft/stategraft/certs"
)

// The values of the label certificate: the serving pair and the authority in
// their Secrets, the pair of a namespace's sidecars, and what a webhook process
// serves at the moment.
const (
	certificateWebhook = certs.CertificateWebhook
	certificateCA      = certs.CertificateCA
	certificateGRPC    = "grpc"
	certificateServing = "serving"
)

var (
	expiry = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "stategraft_certificate_expiry_timestamp_seconds",
		Help: "When a certificate expires: webhook and ca from their Secrets, grpc the first of all namespaces to expire, serving what this process serves.",
	}, []string{"certificate"})

	rotations = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "stategraft_certificate_rotations_total",
		Help: "Certificates made by this controller: webhook, ca, grpc.",
	}, []string{"certificate"})
)

func init() { metrics.Registry.MustRegister(expiry, rotations) }

// Serving tells the metrics when the certificate that this process serves expires.
func Serving(notAfter time.Time) { expires(certificateServing, notAfter) }

// expires sets a gauge. Times are whole seconds, as in certificates.
func expires(certificate string, notAfter time.Time) {
	expiry.WithLabelValues(certificate).Set(float64(notAfter.Unix()))
}

// expiries are those of all namespaces, of which the first one to come is told.
type expiries struct {
	mu          sync.Mutex
	byNamespace map[string]time.Time
}

var grpcExpiries expiries

func (e *expiries) note(namespace string, notAfter time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.byNamespace == nil {
		e.byNamespace = map[string]time.Time{}
	}
	e.byNamespace[namespace] = notAfter
	e.tell()
}

func (e *expiries) forget(namespace string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, known := e.byNamespace[namespace]; known {
		delete(e.byNamespace, namespace)
		e.tell()
	}
}

func (e *expiries) tell() {
	var first time.Time
	for _, t := range e.byNamespace {
		if first.IsZero() || t.Before(first) {
			first = t
		}
	}
	if first.IsZero() {
		expiry.DeleteLabelValues(certificateGRPC)
		return
	}
	expires(certificateGRPC, first)
}
