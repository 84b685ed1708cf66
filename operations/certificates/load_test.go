package certificates_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/operations/certificates"
	"github.com/stategraft/stategraft/patches"
)

// load creates pods in a namespace, and knows what became of them.
type load struct {
	stop func()

	mu         sync.Mutex
	created    int
	bare       []string // created without our containers
	failed     []string
	handshakes int
	untrusted  []string
}

// interval gives 20 pods a second.
const interval = 50 * time.Millisecond

// run creates pods until it is stopped. Beside them it connects to the webhook as
// an API server would that has no connection yet: with the bundle of that moment.
func (r *rig) run(t *testing.T, namespace, webhook string) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{}
	var running sync.WaitGroup
	running.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				running.Go(func() { l.create(t, r, namespace, fmt.Sprintf("ring-%d", n)) })
			}
		}
	})
	running.Go(func() {
		for ctx.Err() == nil {
			l.connect(t, r, webhook)
			wait(ctx, 5*interval)
		}
	})
	l.stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(l.stop)
	return l
}

func (l *load) create(t *testing.T, r *rig, namespace, name string) {
	created, err := r.client.CoreV1().Pods(namespace).Create(t.Context(), cassandra(name), metav1.CreateOptions{})
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		l.failed = append(l.failed, fmt.Sprintf("%s %s: %v", time.Now().Format(time.TimeOnly), name, err))
	case !injected(created):
		l.bare = append(l.bare, time.Now().Format(time.TimeOnly)+" "+name)
	default:
		l.created++
	}
}

func (l *load) connect(t *testing.T, r *rig, address string) {
	bundle, err := r.caBundle(t.Context())
	if err == nil {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(bundle)
		var conn *tls.Conn
		conn, err = tls.Dial("tcp", address, &tls.Config{RootCAs: roots, ServerName: certificates.DefaultWebhookService + "." + home + ".svc", MinVersion: tls.VersionTLS13})
		if err == nil {
			_ = conn.Close()
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handshakes++
	if err != nil {
		l.untrusted = append(l.untrusted, time.Now().Format(time.TimeOnly)+" "+err.Error())
	}
}

// judge stops and fails the test where anything was lost.
func (l *load) judge(t *testing.T, atLeast int) {
	t.Helper()
	l.stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	for what, lost := range map[string][]string{"without injection": l.bare, "refused": l.failed, "handshakes refused": l.untrusted} {
		if len(lost) > 0 {
			t.Errorf("%d %s, such as %s", len(lost), what, strings.Join(lost[:min(5, len(lost))], "; "))
		}
	}
	if l.created < atLeast {
		t.Errorf("only %d pods created, which shows nothing", l.created)
	}
	if !t.Failed() {
		t.Logf("figure: %d pods, all injected, none refused; %d handshakes, all good", l.created, l.handshakes)
	}
}

func injected(pod *corev1.Pod) bool {
	for _, c := range append(pod.Spec.Containers, pod.Spec.InitContainers...) {
		if c.Name == patches.ContainerAgent {
			return true
		}
	}
	return false
}

// cassandra is a pod that is injected, and that no scheduler looks at.
func cassandra(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			SchedulerName: "nobody",
			Containers: []corev1.Container{{Name: "cassandra", Image: "cassandra:5.0",
				Ports:        []corev1.ContainerPort{{ContainerPort: 9042}, {ContainerPort: 7000}},
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/var/lib/cassandra"}}}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-ring-0"}}}},
		},
	}
}
