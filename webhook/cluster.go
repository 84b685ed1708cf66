package webhook

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ClusterNamespaces answers from the informers of a controller-runtime cache.
// Of namespaces only the metadata are watched.
type ClusterNamespaces struct {
	reader    client.Reader
	informers []cache.Informer
}

// WatchNamespaces starts the informers with the cache.
func WatchNamespaces(ctx context.Context, c cache.Cache) (*ClusterNamespaces, error) {
	n := &ClusterNamespaces{reader: c}
	for _, object := range []client.Object{namespaceMetadata(), &corev1.ResourceQuota{}, &corev1.LimitRange{}} {
		informer, err := c.GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("watching %T: %w", object, err)
		}
		n.informers = append(n.informers, informer)
	}
	return n, nil
}

func namespaceMetadata() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return object
}

// Namespace implements Namespaces. What cannot be read counts as not there: the
// API server has already looked at the namespace's label.
func (n *ClusterNamespaces) Namespace(name string) Namespace {
	for _, informer := range n.informers {
		if !informer.HasSynced() { // a read would wait for the network
			return Namespace{Name: name, Unknown: true}
		}
	}
	ctx := context.Background() // the cache answers from memory
	object := namespaceMetadata()
	if err := n.reader.Get(ctx, client.ObjectKey{Name: name}, object); err != nil {
		return Namespace{Name: name, Unknown: true}
	}
	ns := Namespace{Name: name, Labels: object.Labels, Annotations: object.Annotations}
	var quotas corev1.ResourceQuotaList
	if n.reader.List(ctx, &quotas, client.InNamespace(name), client.UnsafeDisableDeepCopy) == nil {
		ns.Quotas = quotas.Items
	}
	var ranges corev1.LimitRangeList
	if n.reader.List(ctx, &ranges, client.InNamespace(name), client.UnsafeDisableDeepCopy) == nil {
		ns.LimitRanges = ranges.Items
	}
	return ns
}

// nativeSince is the version of the API server from which every kubelet that
// may run with it (three minor versions older at most) knows sidecars without a
// feature gate (KEP-753: on by default since 1.29).
var nativeSince = version.MustParseSemantic("1.32.0")

// ServerVersion keeps up with the version of the API server, outside of the
// admission path.
type ServerVersion struct {
	Discovery discovery.ServerVersionInterface
	Log       logr.Logger

	native atomic.Bool
}

// Native tells whether init containers may have restartPolicy Always.
func (v *ServerVersion) Native() bool { return v.native.Load() }

// Refresh asks the API server.
func (v *ServerVersion) Refresh() error {
	info, err := v.Discovery.ServerVersion()
	if err != nil {
		return fmt.Errorf("asking for the API server's version: %w", err)
	}
	server, err := version.ParseGeneric(info.GitVersion)
	if err != nil {
		return fmt.Errorf("reading the API server's version %q: %w", info.GitVersion, err)
	}
	v.native.Store(server.AtLeast(nativeSince))
	return nil
}

// Start refreshes now and then until the context ends: API servers are upgraded
// under a running webhook.
func (v *ServerVersion) Start(ctx context.Context) error {
	ticker := time.NewTicker(10 * time.Minute)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := v.Refresh(); err != nil {
				v.Log.Error(err, "the version of the API server is not known anew")
			}
		}
	}
}

// NeedLeaderElection is false: every replica answers admission.
func (v *ServerVersion) NeedLeaderElection() bool { return false }
