package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/annotated"
	"github.com/stategraft/stategraft/operations/backup"
	"github.com/stategraft/stategraft/operations/catalogue"
	"github.com/stategraft/stategraft/operations/claims"
	"github.com/stategraft/stategraft/operations/objects"
	"github.com/stategraft/stategraft/operations/removal"
	"github.com/stategraft/stategraft/operations/rpo"
	"github.com/stategraft/stategraft/operations/scheduler"
	"github.com/stategraft/stategraft/operations/sidecar"
	"github.com/stategraft/stategraft/operations/verify"
)

// storage is what the controllers of backups share: whose turn it is, and who deletes.
// Both go by the informers of the group, which are made anew when it begins again.
type storage struct {
	nodes  *sidecar.Client
	claims atomic.Pointer[claims.Claims]
	remove atomic.Pointer[removal.Remover]
}

// setup is the first of the group.
func (s *storage) setup(_ context.Context, cached cache.Cache) ([]objects.Runner, error) {
	s.claims.Store(claims.New(cached))
	s.remove.Store(&removal.Remover{Nodes: s.nodes, Medusas: s.nodes, Discards: s.nodes, Cached: cached})
	return nil, nil
}

// Remove implements backup.Remover.
func (s *storage) Remove(ctx context.Context, b *api.Backup, pods []corev1.Pod) error {
	return s.remove.Load().Remove(ctx, b, pods)
}

// holder implements scheduler.Claims.
func (s *storage) holder(namespace, prefix string) (string, types.NamespacedName, bool) {
	kind, who, held := s.claims.Load().Holder(claims.Cluster{Namespace: namespace, Prefix: prefix})
	return string(kind), who, held
}

// backups adds what makes, finds, keeps and deletes backups. It waits for the
// CustomResourceDefinitions; nothing else waits for it.
func backups(mgr manager.Manager, namespace string, nodes *sidecar.Client) error {
	group := objects.New(mgr)
	shared := &storage{nodes: nodes}
	group.Add(shared.setup)
	known, err := catalogue.New(catalogue.Options{Namespace: namespace, Nodes: nodes})
	if err != nil {
		return err
	}
	list := func(ctx context.Context, namespace, prefix string, maxAge time.Duration) scheduler.Listing {
		return scheduler.Listing(known.Listing(ctx, namespace, prefix, maxAge))
	}
	turns := func(client.Reader) backup.Turns { return shared.claims.Load() }
	if err := errors.Join(
		backup.Add(group, backup.Options{Namespace: namespace, Sidecars: nodes, Turns: turns, Remover: shared}),
		catalogue.Add(group, catalogue.Options{Namespace: namespace, Nodes: nodes, Catalogue: known}),
		scheduler.Add(group, scheduler.Options{Catalogue: scheduler.CatalogueFunc(list), Claims: scheduler.ClaimsFunc(shared.holder)}),
		annotated.Add(group, annotated.Options{Namespace: namespace, Nodes: nodes}),
		rpo.Add(group, rpo.Options{Namespace: namespace}),
		verify.Add(group, verify.Options{}),
	); err != nil {
		return fmt.Errorf("adding the controllers of backups: %w", err)
	}
	if err := mgr.Add(group); err != nil {
		return fmt.Errorf("adding the controllers of backups: %w", err)
	}
	return nil
}
