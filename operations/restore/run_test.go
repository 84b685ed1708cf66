package restore

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"sigs.k8s.io/controller-runtime/pkg/event"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

func value(t *testing.T, gauge prometheus.Metric) float64 {
	t.Helper()
	var m dto.Metric
	if err := gauge.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetGauge().GetValue()
}

// TestWithoutCRD: where Restores are not known, the manager and all else in it run.
func TestWithoutCRD(t *testing.T) {
	var asked, told atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if request.URL.Path == "/api" || request.URL.Path == "/apis" {
			_, _ = w.Write([]byte(`{"kind": "APIGroupList", "apiVersion": "v1", "groups": []}`))
			return
		}
		if strings.HasPrefix(request.URL.Path, "/apis/"+api.Group) {
			asked.Add(1)
		}
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`))
	}))
	defer server.Close()
	log := funcr.New(func(_, args string) {
		if strings.Contains(args, "CustomResourceDefinition") {
			told.Add(1)
		}
	}, funcr.Options{})
	mgr, err := manager.New(&rest.Config{Host: server.URL}, manager.Options{Scheme: scheme(t), Logger: log, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0"})
	if err != nil {
		t.Fatal(err)
	}
	if err := Add(mgr, Options{Namespace: "stategraft", Nodes: &sidecars{}}); err != nil {
		t.Fatal(err)
	}
	r := &runner{mgr: mgr, log: log, pause: 5 * time.Millisecond}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan error, 2)
	go func() { ended <- mgr.Start(ctx) }()
	go func() { ended <- r.Start(ctx) }()
	for asked.Load() < 10 {
		select {
		case err := <-ended:
			t.Fatalf("it has ended: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	cancel()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if n := told.Load(); n < 1 || n > 2 {
		t.Errorf("it was told %d times", n)
	}
}

func TestAddAsksForWhatItNeeds(t *testing.T) {
	if Add(nil, Options{Nodes: &sidecars{}}) == nil || Add(nil, Options{Namespace: "stategraft"}) == nil {
		t.Error("it was added without")
	}
}

// TestAsked: our own writing of the status is no reason to look again.
func TestAsked(t *testing.T) {
	was := begun()
	for name, c := range map[string]struct {
		change func(*api.Restore)
		want   bool
	}{
		"the status":   {func(r *api.Restore) { r.Status.Message, r.ResourceVersion = "x", "9" }, false},
		"the spec":     {func(r *api.Restore) { r.Generation++ }, true},
		"it is going":  {func(r *api.Restore) { r.DeletionTimestamp = &r.CreationTimestamp }, true},
		"another":      {func(r *api.Restore) { r.UID = "other" }, true},
		"a finalizer":  {func(r *api.Restore) { r.Finalizers = nil }, false},
		"a resync":     {func(*api.Restore) {}, false},
		"annotated":    {func(r *api.Restore) { r.Annotations = map[string]string{"a": "b"} }, false},
		"its progress": {func(r *api.Restore) { r.Status.Progress.Data = "5%" }, false},
	} {
		is := was.DeepCopy()
		c.change(is)
		if got := asked.Update(event.TypedUpdateEvent[*api.Restore]{ObjectOld: was, ObjectNew: is}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
