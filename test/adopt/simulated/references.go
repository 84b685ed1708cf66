package simulated

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// configError is what the kubelet says of a container whose variables cannot be read
// (k8s.io/kubernetes/pkg/kubelet/kuberuntime, ErrCreateContainerConfig).
const configError = "CreateContainerConfigError"

// fresh is how long what was read of an object counts.
const fresh = 300 * time.Millisecond

// references knows which keys Secrets and ConfigMaps have.
type references struct {
	client kubernetes.Interface
	mutex  sync.Mutex
	known  map[string]keys
}

type keys struct {
	at  time.Time
	has map[string]bool // nil where there is no such object
}

// missing tells whether a container waits for a Secret or a ConfigMap.
func (r *references) missing(ctx context.Context, namespace string, env []corev1.EnvVar) bool {
	for i := range env {
		from := env[i].ValueFrom
		if from == nil {
			continue
		}
		if ref := from.SecretKeyRef; ref != nil && (ref.Optional == nil || !*ref.Optional) && !r.there(ctx, "secret", namespace, ref.Name, ref.Key) {
			return true
		}
		if ref := from.ConfigMapKeyRef; ref != nil && (ref.Optional == nil || !*ref.Optional) && !r.there(ctx, "configmap", namespace, ref.Name, ref.Key) {
			return true
		}
	}
	return false
}

func (r *references) there(ctx context.Context, kind, namespace, name, key string) bool {
	id := fmt.Sprint(kind, "/", namespace, "/", name)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if known := r.known[id]; time.Since(known.at) < fresh {
		return known.has[key]
	}
	has, err := r.read(ctx, kind, namespace, name)
	if err != nil {
		return false // asked again, as long as it waits
	}
	r.known[id] = keys{time.Now(), has}
	return has[key]
}

func (r *references) read(ctx context.Context, kind, namespace, name string) (map[string]bool, error) {
	has := map[string]bool{}
	if kind == "secret" {
		o, err := r.client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, ignoreNotFound(err)
		}
		for key := range o.Data {
			has[key] = true
		}
		return has, nil
	}
	o, err := r.client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, ignoreNotFound(err)
	}
	for key := range o.Data {
		has[key] = true
	}
	return has, nil
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
