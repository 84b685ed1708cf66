package heal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// errFull says that there is no room for another held back workload.
var errFull = errors.New("too many workloads are held back already")

// store is the ledger in its ConfigMap. Only the leader writes; a leader that has
// lost its office without knowing runs into the resourceVersion. People may write
// too: to take a key out ends the holding back.
type store struct {
	reader    client.Reader // of the API server itself
	writer    client.Writer
	namespace string
	now       func() time.Time
	log       logr.Logger

	mu     sync.Mutex
	known  ledger // as of the last read or write
	loaded bool
	broken string // keys that could not be read, said once
}

// refreshEvery is how soon the store knows what people have written, and forgets
// what is over.
const refreshEvery = time.Minute

// Start keeps the store fresh until the context ends, on the leader only.
func (s *store) Start(ctx context.Context) error {
	ticker := time.NewTicker(refreshEvery)
	defer ticker.Stop()
	for {
		if err := s.change(ctx, func(l ledger) bool { return false }); err != nil && ctx.Err() == nil {
			s.log.Error(err, "the held back workloads are not known anew")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// find answers the entry of a workload, active or not.
func (s *store) find(ctx context.Context, namespace, kind, name string) (api.HeldBack, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.loaded {
		if _, err := s.load(ctx); err != nil {
			return api.HeldBack{}, false, err
		}
	}
	entry, ok := s.known[api.HeldBackKey(namespace, kind, name)]
	return entry, ok, nil
}

// hold enters a workload and answers whether that was news. The error is errFull
// where there is no room.
func (s *store) hold(ctx context.Context, entry api.HeldBack, created time.Time) (news bool, err error) {
	err = s.change(ctx, func(l ledger) bool {
		news = l.hold(entry, created, s.now())
		return news
	})
	return news && err == nil, err
}

// release ends the holding back of a workload, if the entry is still the one that
// was found, and answers whether it did. The entry is remembered, unless it is a
// trial: that has shown nothing of us.
func (s *store) release(ctx context.Context, found api.HeldBack) (done bool, err error) {
	err = s.change(ctx, func(l ledger) bool {
		key := found.Key()
		entry, in := l[key]
		switch done = in && same(entry, found) && entry.Ended.IsZero(); {
		case !done:
		case entry.Trial != nil:
			delete(l, key)
		default:
			entry.Ended = s.now().UTC().Truncate(time.Second)
			l[key] = entry
		}
		return done
	})
	return done && err == nil, err
}

// confirm ends a trial that showed that it was us, if the entry is still the one
// that was found, and answers whether it did. Somebody may have taken it out.
func (s *store) confirm(ctx context.Context, found api.HeldBack) (done bool, err error) {
	err = s.change(ctx, func(l ledger) bool {
		entry, in := l[found.Key()]
		if done = in && same(entry, found) && entry.Trial != nil; done {
			entry.Trial = nil
			l[found.Key()] = entry
		}
		return done
	})
	return done && err == nil, err
}

// same tells whether two entries of a workload were made by the same failure.
func same(a, b api.HeldBack) bool {
	return a.Since.Equal(b.Since) && (a.Trial == nil) == (b.Trial == nil)
}

// attempts bounds the writes that meet one of somebody else's.
const attempts = 5

// change reads the ConfigMap, has it changed and writes it where it was.
func (s *store) change(ctx context.Context, edit func(ledger) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for attempt := 1; ; attempt++ {
		config, err := s.load(ctx)
		if err != nil {
			return err
		}
		l := maps.Clone(s.known)
		edited := edit(l)
		tidied := l.tidy(s.now())
		if !edited && !tidied {
			return nil
		}
		if edited && !l.fits() {
			full.Inc()
			return errFull
		}
		if err = s.write(ctx, config, l); err == nil {
			s.know(l)
			return nil
		}
		if attempt == attempts || !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("writing ConfigMap %s: %w", api.HeldBackConfigMap, err)
		}
	}
}

// load reads the ConfigMap; where there is none, the answer has no
// resourceVersion.
func (s *store) load(ctx context.Context) (*corev1.ConfigMap, error) {
	config := &corev1.ConfigMap{}
	err := s.reader.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: api.HeldBackConfigMap}, config)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading ConfigMap %s: %w", api.HeldBackConfigMap, err)
	}
	if err != nil {
		config = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: api.HeldBackConfigMap,
			Labels: map[string]string{"app.kubernetes.io/name": "stategraft", "app.kubernetes.io/component": "controller"}}}
	}
	l, broken := parseLedger(config.Data)
	if text := fmt.Sprint(broken); text != s.broken {
		if s.broken = text; len(broken) > 0 {
			s.log.Info("held back workloads that cannot be read, left out", "configMap", api.HeldBackConfigMap, "keys", broken)
		}
	}
	s.know(l)
	return config, nil
}

func (s *store) know(l ledger) {
	s.known, s.loaded = l, true
	heldBack.set(l.active(s.now()))
}

func (s *store) write(ctx context.Context, config *corev1.ConfigMap, l ledger) error {
	config.Data = l.encode()
	if config.ResourceVersion == "" {
		return s.writer.Create(ctx, config)
	}
	return s.writer.Update(ctx, config)
}
