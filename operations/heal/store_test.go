package heal

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// fakeStore is a store whose writes go through a function first.
func fakeStore(before func(client.Client) error) (*store, client.Client, *int) {
	writes := 0
	c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			if writes++; before != nil {
				if err := before(c); err != nil {
					return err
				}
			}
			return c.Create(ctx, object, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.UpdateOption) error {
			if writes++; before != nil {
				if err := before(c); err != nil {
					return err
				}
			}
			return c.Update(ctx, object, opts...)
		},
	}).Build()
	return &store{reader: c, writer: c, namespace: "stategraft", now: func() time.Time { return start }, log: logr.Discard()}, c, &writes
}

func configMap(t *testing.T, c client.Client) *corev1.ConfigMap {
	t.Helper()
	var config corev1.ConfigMap
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "stategraft", Name: api.HeldBackConfigMap}, &config); err != nil {
		t.Fatal(err)
	}
	return &config
}

func TestStore(t *testing.T) {
	ctx := t.Context()
	s, c, writes := fakeStore(nil)
	step := func(name string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	_, ok, err := s.find(ctx, "db", "StatefulSet", "x")
	step("find in nothing", err)
	if ok {
		t.Error("found in nothing")
	}
	news, err := s.hold(ctx, entryOf("x", api.CauseImagePull, "a"), start)
	step("hold", err)
	again, err := s.hold(ctx, entryOf("x", api.CauseImagePull, "a"), start)
	step("hold again", err)
	if !news || again || *writes != 1 {
		t.Errorf("news %v, then %v, %d writes", news, again, *writes)
	}
	if text := configMap(t, c).Data["db.statefulset.x"]; text == "" {
		t.Error("not written")
	}
	news, err = s.hold(ctx, entryOf("y", api.CauseRefused), start)
	step("hold another", err)
	if entry, ok, err := s.find(ctx, "db", "StatefulSet", "y"); !news || !ok || err != nil || !entry.Until.Equal(start.Add(time.Hour)) {
		t.Errorf("found %+v %v (%v)", entry, ok, err)
	}
	// Another leader reads what this one wrote.
	other := &store{reader: c, writer: c, namespace: "stategraft", now: s.now, log: logr.Discard()}
	if _, ok, err := other.find(ctx, "db", "StatefulSet", "x"); !ok || err != nil {
		t.Errorf("another leader: %v (%v)", ok, err)
	}
	found, _, err := s.find(ctx, "db", "StatefulSet", "x")
	step("find", err)
	was, err := s.release(ctx, found)
	step("release", err)
	not, err := s.release(ctx, found)
	step("release again", err)
	if !was || not || *writes != 3 {
		t.Errorf("was held %v, then %v, %d writes", was, not, *writes)
	}
	ended, ok, err := s.find(ctx, "db", "StatefulSet", "x")
	step("find what ended", err)
	if !ok || ended.Active(start) || configMap(t, c).Data["db.statefulset.x"] != ended.Encode() {
		t.Errorf("remembered %v, active %v", ok, ended.Active(start))
	}
	var counted dto.Metric
	step("count", heldBack.WithLabelValues(string(api.CauseImagePull)).Write(&counted))
	if n := counted.GetGauge().GetValue(); n != 0 {
		t.Errorf("%v workloads are counted as held back for what ended", n)
	}
	// People may take out what they like.
	step("delete", c.Delete(ctx, configMap(t, c)))
	step("refresh", s.change(ctx, func(ledger) bool { return false }))
	if _, ok, _ := s.find(ctx, "db", "StatefulSet", "y"); ok {
		t.Error("held after the ConfigMap went")
	}
}

// What was found may be another by the time that it is written: taken out by
// people, or entered anew by another worker. Then it is left as it is.
func TestStoreStale(t *testing.T) {
	for _, c := range []struct {
		name  string
		trial bool
		write func(*store, context.Context, api.HeldBack) (bool, error)
	}{
		{"release", false, (*store).release},
		{"release of a trial", true, (*store).release},
		{"confirm", true, (*store).confirm},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, client, _ := fakeStore(nil)
			entry := entryOf("x", api.CauseRefused)
			if c.trial {
				entry.Trial = &api.Trial{}
			}
			found := func() api.HeldBack {
				t.Helper()
				if _, err := s.hold(t.Context(), entry, start); err != nil {
					t.Fatal(err)
				}
				found, _, _ := s.find(t.Context(), "db", "StatefulSet", "x")
				return found
			}
			unchanged := func(found api.HeldBack, what string, want string) {
				t.Helper()
				done, err := c.write(s, t.Context(), found)
				if now := configMap(t, client).Data["db.statefulset.x"]; done || err != nil || now != want {
					t.Errorf("%s: done %v (%v), now %s", what, done, err, now)
				}
			}
			stale := found()
			config := configMap(t, client)
			config.Data = nil
			if err := client.Update(t.Context(), config); err != nil {
				t.Fatal(err)
			}
			unchanged(stale, "taken out", "")

			stale = found()
			s.now = func() time.Time { return start.Add(time.Minute) }
			if _, err := s.hold(t.Context(), entryOf("x", api.CauseImagePull, "b"), start.Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			unchanged(stale, "entered anew", configMap(t, client).Data["db.statefulset.x"])
		})
	}
}

// A trial that showed that it was us goes on as a holding back; one that showed
// nothing of us is not remembered.
func TestStoreTrial(t *testing.T) {
	for confirmed, write := range map[bool]func(*store, context.Context, api.HeldBack) (bool, error){true: (*store).confirm, false: (*store).release} {
		s, _, _ := fakeStore(nil)
		entry := entryOf("x", api.CauseRefused)
		entry.Trial = &api.Trial{}
		if _, err := s.hold(t.Context(), entry, start); err != nil {
			t.Fatal(err)
		}
		found, _, _ := s.find(t.Context(), "db", "StatefulSet", "x")
		if done, err := write(s, t.Context(), found); !done || err != nil {
			t.Errorf("confirmed %v: done %v (%v)", confirmed, done, err)
		}
		if now, ok, _ := s.find(t.Context(), "db", "StatefulSet", "x"); ok != confirmed || now.Trial != nil || now.Active(start) != confirmed {
			t.Errorf("confirmed %v: known %v, %+v", confirmed, ok, now)
		}
	}
}

// Two writers at a time lose nothing.
func TestStoreConflict(t *testing.T) {
	for _, exists := range []bool{false, true} {
		interrupted := false
		s, c, writes := fakeStore(func(c client.Client) error {
			if interrupted {
				return nil
			}
			interrupted = true
			other := &store{reader: c, writer: c, namespace: "stategraft", now: func() time.Time { return start }, log: logr.Discard()}
			_, err := other.hold(context.Background(), entryOf("other", api.CauseRefused), start)
			return err
		})
		if exists {
			interrupted = true
			if err := c.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "stategraft", Name: api.HeldBackConfigMap}}); err != nil {
				t.Fatal(err)
			}
			interrupted, *writes = false, 0
		}
		if _, err := s.hold(t.Context(), entryOf("x", api.CauseImagePull, "a"), start); err != nil {
			t.Fatal(err)
		}
		if data := configMap(t, c).Data; len(data) != 2 || *writes != 2 {
			t.Errorf("exists %v: %d writes made %v", exists, *writes, data)
		}
	}
}

func TestStoreErrors(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, api.HeldBackConfigMap, errors.New("not yours"))
	s, _, writes := fakeStore(func(client.Client) error { return forbidden })
	if news, err := s.hold(t.Context(), entryOf("x", api.CauseRefused), start); news || !apierrors.IsForbidden(err) || *writes != 1 {
		t.Errorf("news %v, %v, %d writes", news, err, *writes)
	}
	if _, ok, err := s.find(t.Context(), "db", "StatefulSet", "x"); ok || err != nil {
		t.Errorf("held though it was not written (%v)", err)
	}
}

// A full list is said to be full, and stays as it is.
func TestStoreFull(t *testing.T) {
	s, c, _ := fakeStore(nil)
	l := ledger{}
	for i := range maxEntries {
		l.hold(entryOf(fmt.Sprintf("x%d", i), api.CauseRefused), start, start)
	}
	if err := c.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "stategraft", Name: api.HeldBackConfigMap}, Data: l.encode()}); err != nil {
		t.Fatal(err)
	}
	if news, err := s.hold(t.Context(), entryOf("one-more", api.CauseRefused), start); news || !errors.Is(err, errFull) {
		t.Errorf("news %v, %v", news, err)
	}
	if got := len(configMap(t, c).Data); got != maxEntries {
		t.Errorf("%d entries", got)
	}
	s.now = func() time.Time { return start.Add(2 * time.Hour) } // all are over
	if news, err := s.hold(t.Context(), entryOf("one-more", api.CauseRefused), start); !news || err != nil {
		t.Errorf("news %v, %v", news, err)
	}
	if got := len(configMap(t, c).Data); got != maxEntries {
		t.Errorf("%d entries", got)
	}
}
