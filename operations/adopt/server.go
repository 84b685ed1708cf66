package adopt

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/certs"
)

// The requests to the API server, watches aside, per second and at once.
const (
	requestsPerSecond = 10
	requestsAtOnce    = 20
)

// server is what the API server is asked for and told.
type server interface {
	pod(ctx context.Context, key types.NamespacedName) (*corev1.Pod, error)
	node(ctx context.Context, name string) (*corev1.Node, error)
	// pair is the digest of api.SecretGRPC, empty where there is none.
	pair(ctx context.Context, namespace string) (string, error)
	// restoring are the pods that a Restore is about that is not over, with its name.
	restoring(ctx context.Context, namespace string) (map[string]string, error)
	// askers are the namespaces with pods that ask by themselves and have no label yet.
	askers(ctx context.Context) ([]string, error)
	// add adds containers to the very pod, as it was read.
	add(ctx context.Context, pod *corev1.Pod, containers []corev1.EphemeralContainer) (*corev1.Pod, error)
	// label writes api.LabelInjected on the very pod, or with an empty kind takes it off.
	label(ctx context.Context, pod *corev1.Pod, kind string) error
}

// apiServer is the server.
type apiServer struct {
	core corev1client.CoreV1Interface
	read client.Reader // not from memory
}

func (s *apiServer) pod(ctx context.Context, key types.NamespacedName) (*corev1.Pod, error) {
	return s.core.Pods(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
}

func (s *apiServer) node(ctx context.Context, name string) (*corev1.Node, error) {
	return s.core.Nodes().Get(ctx, name, metav1.GetOptions{})
}

func (s *apiServer) pair(ctx context.Context, namespace string) (string, error) {
	secret, err := s.core.Secrets(namespace).Get(ctx, api.SecretGRPC, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading Secret %s/%s: %w", namespace, api.SecretGRPC, err)
	}
	return PairDigest(secret), nil
}

// PairDigest tells what a Secret api.SecretGRPC holds from what it held before; empty where
// it is not complete.
func PairDigest(secret *corev1.Secret) string {
	hash := sha256.New()
	for _, key := range []string{certs.KeyCert, certs.KeyKey, certs.KeyCA} {
		value := secret.Data[key]
		if len(value) == 0 {
			return ""
		}
		fmt.Fprintf(hash, "%d\n%s", len(value), value)
	}
	return hex.EncodeToString(hash.Sum(nil)[:8])
}

func (s *apiServer) restoring(ctx context.Context, namespace string) (map[string]string, error) {
	var list api.RestoreList
	err := s.read.List(ctx, &list, client.InNamespace(namespace))
	if err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("listing the Restores of namespace %s: %w", namespace, err)
	}
	pods := map[string]string{}
	for i := range list.Items {
		r := &list.Items[i]
		underWay := r.Status.Phase == api.RestoreRestoring || r.Status.Phase == api.RestoreStopping
		for _, at := range r.Status.Pods {
			if underWay || slices.Contains(r.Status.Pending, at.Name) {
				pods[at.Name] = r.Name
			}
		}
		for _, name := range r.Status.Pending {
			pods[name] = r.Name
		}
	}
	return pods, nil
}

// pageSize is how many pods are listed at a time.
const pageSize = 500

func (s *apiServer) askers(ctx context.Context) (namespaces []string, err error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	for more := true; more; more = list.Continue != "" {
		if err := s.read.List(ctx, list, client.MatchingLabelsSelector{Selector: unlabelled}, client.Limit(pageSize), client.Continue(list.Continue)); err != nil {
			return nil, fmt.Errorf("looking for pods that ask for adoption: %w", err)
		}
		for i := range list.Items {
			if pod := &list.Items[i]; pod.Annotations[api.AnnotationAdopt] == api.AdoptRunning && !slices.Contains(namespaces, pod.Namespace) {
				namespaces = append(namespaces, pod.Namespace)
			}
		}
	}
	return namespaces, nil
}

var unlabelled = func() labels.Selector {
	without, err := labels.NewRequirement(api.LabelInjected, selection.DoesNotExist, nil)
	if err != nil {
		panic(err) // of a constant
	}
	return labels.NewSelector().Add(*without)
}()

// operation is one of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// additions is the JSON patch that adds containers to a pod. That the pod is the one that was
// read, and as it was then, is for the API server to see: it answers with a conflict else.
func additions(pod *corev1.Pod, containers []corev1.EphemeralContainer) ([]byte, error) {
	all := []operation{
		{"replace", "/metadata/uid", pod.UID},
		{"replace", "/metadata/resourceVersion", pod.ResourceVersion},
	}
	if len(pod.Spec.EphemeralContainers) == 0 {
		all = append(all, operation{"add", "/spec/ephemeralContainers", containers})
	} else {
		for _, c := range containers {
			all = append(all, operation{"add", "/spec/ephemeralContainers/-", c})
		}
	}
	body, err := json.Marshal(all)
	if err != nil {
		return nil, fmt.Errorf("encoding containers: %w", err)
	}
	return body, nil
}

func (s *apiServer) add(ctx context.Context, pod *corev1.Pod, containers []corev1.EphemeralContainer) (*corev1.Pod, error) {
	body, err := additions(pod, containers)
	if err != nil {
		return nil, err
	}
	after, err := s.core.Pods(pod.Namespace).Patch(ctx, pod.Name, types.JSONPatchType, body, metav1.PatchOptions{FieldManager: fieldManager}, "ephemeralcontainers")
	if err != nil {
		return nil, fmt.Errorf("adding containers to pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return after, nil
}

const fieldManager = "stategraft-controller"

func (s *apiServer) label(ctx context.Context, pod *corev1.Pod, kind string) error {
	var value any
	if kind != "" {
		value = kind
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "resourceVersion": pod.ResourceVersion, "labels": map[string]any{api.LabelInjected: value}}})
	if err != nil {
		return fmt.Errorf("encoding a label: %w", err)
	}
	if _, err := s.core.Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: fieldManager}); err != nil {
		return fmt.Errorf("labelling pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}
