package check

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// Cluster is what the items look at. It reads nothing before it is asked, and
// what several items need only once. It is for one run, in one goroutine.
type Cluster struct {
	Kube    kubernetes.Interface
	Dynamic dynamic.Interface
	Meta    metadata.Interface // for objects of which there are many
	// Warnings collects what the API server says to the clients above.
	Warnings *Warnings

	Options

	version once[*apiversion.Info]
	install once[*Installation]
	spaces  once[[]corev1.Namespace]
	probed  once[probe]
	swept   once[*sweep]
	config  once[configuration]
	held    once[heldBack]
}

// Options say where to look and how.
type Options struct {
	// Namespace restricts the look at namespaces and pods; empty for all that
	// are labelled.
	Namespace string
	// Named says that the items were named: what they cannot look at is not
	// passed over.
	Named bool
	// Where names the cluster: its address, the context and the kubeconfig.
	Where string
	// Version is that of the command line.
	Version string
	// Now is the time that certificates are judged by.
	Now func() time.Time
}

// New makes the clients. The configuration is copied.
func New(config *rest.Config, options Options) (*Cluster, error) {
	warnings := &Warnings{}
	config = rest.CopyConfig(config)
	config.WarningHandler = warnings
	// A person waits: the API server's own fairness is enough of a limit.
	config.QPS, config.Burst = 100, 200
	binary := rest.CopyConfig(config) // less to decode than JSON
	binary.ContentType, binary.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	kube, err := kubernetes.NewForConfig(binary)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	other, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a dynamic client: %w", err)
	}
	meta, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for metadata: %w", err)
	}
	return &Cluster{Kube: kube, Dynamic: other, Meta: meta, Warnings: warnings, Options: options}, nil
}

// once keeps what was read, or why it could not be.
type once[T any] struct {
	done  bool
	value T
	err   error
}

func (o *once[T]) get(read func() (T, error)) (T, error) {
	if !o.done {
		o.value, o.err = read()
		o.done = true
	}
	return o.value, o.err
}

// Warnings are texts that the API server sent beside its answers.
type Warnings struct {
	mu    sync.Mutex
	texts []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *Warnings) HandleWarningHeader(_ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

// Take gives the texts since the last call.
func (w *Warnings) Take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	texts := w.texts
	w.texts = nil
	return texts
}

func (c *Cluster) server(ctx context.Context) (*apiversion.Info, error) {
	return c.version.get(func() (*apiversion.Info, error) {
		return discovery.ToDiscoveryInterfaceWithContext(c.Kube.Discovery()).ServerVersionWithContext(ctx)
	})
}

// pageSize is how many objects are asked for at a time.
const pageSize = 500

// pages lists in pages and hands over each object, which is not kept.
func pages[T any](list func(metav1.ListOptions) ([]T, string, error), options metav1.ListOptions, each func(*T)) error {
	options.Limit = pageSize
	for {
		items, next, err := list(options)
		if err != nil {
			return err
		}
		for i := range items {
			each(&items[i])
		}
		if next == "" {
			return nil
		}
		options.Continue = next
	}
}

// namespaces are all, or the one that was asked for, as far as they are wanted
// for labels and annotations.
func (c *Cluster) namespaces(ctx context.Context) ([]corev1.Namespace, error) {
	return c.spaces.get(func() ([]corev1.Namespace, error) {
		client := c.Kube.CoreV1().Namespaces()
		if c.Namespace != "" {
			one, err := client.Get(ctx, c.Namespace, metav1.GetOptions{})
			if err != nil {
				return nil, unread(err, right{Verb: "get", Resource: "namespaces", Name: c.Namespace})
			}
			return []corev1.Namespace{*one}, nil
		}
		var all []corev1.Namespace
		err := pages(func(o metav1.ListOptions) ([]corev1.Namespace, string, error) {
			list, err := client.List(ctx, o)
			if err != nil {
				return nil, "", unread(err, right{Verb: "list", Resource: "namespaces"})
			}
			return list.Items, list.Continue, nil
		}, metav1.ListOptions{}, func(ns *corev1.Namespace) {
			if ns.Labels[api.LabelInject] == "" {
				ns.ManagedFields = nil // else they tell since when
			}
			all = append(all, *ns)
		})
		return all, err
	})
}

// systemNamespaces are never injected, whatever their labels
// (deploy/chart/templates/admission/mutating-webhook-configuration.yaml).
var systemNamespaces = []string{metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease}

// never tells whether pods of the namespace are never injected.
func (c *Cluster) never(ctx context.Context, namespace string) bool {
	return slices.Contains(systemNamespaces, namespace) || namespace == c.installation(ctx).Namespace
}

// labelled are the namespaces whose pods the webhook sees. One that was asked
// for and cannot be read is taken for labelled, so that its pods are looked at.
func (c *Cluster) labelled(ctx context.Context) ([]corev1.Namespace, error) {
	all, err := c.namespaces(ctx)
	if err != nil {
		if c.Namespace == "" || !forbidden(err) {
			return nil, err
		}
		return []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: c.Namespace,
			Labels: map[string]string{api.LabelInject: api.InjectEnabled}}}}, nil
	}
	var found []corev1.Namespace
	for _, ns := range all {
		if ns.Labels[api.LabelInject] == api.InjectEnabled && ns.DeletionTimestamp == nil && !c.never(ctx, ns.Name) {
			found = append(found, ns)
		}
	}
	return found, nil
}

// noneLabelled is what items on labelled namespaces find where there are none.
func (c *Cluster) noneLabelled() []Finding {
	if c.Namespace != "" {
		return []Finding{finding(Info, c.Namespace, "nothing to look at: the namespace is not labelled, or never injected")}
	}
	return []Finding{finding(Info, "", "nothing to look at: no namespace is labelled")}
}
