package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// restoring answers as an API server with a StatefulSet of two pods, and keeps
// Restores.
type restoring struct {
	sync.Mutex
	list    []*api.Restore
	version int
	// react plays the controller, each time a Restore was made or changed.
	react   func(*api.Restore)
	deleted []string
	served  bool              // whether there are Restores at all
	watched func(name string) // is told that somebody has the first of a watch; may be nil
	late    int               // how often db-1 is not there yet when pods are asked for
}

func restoringServer(t *testing.T, react func(*api.Restore)) (*restoring, string) {
	t.Helper()
	s := &restoring{react: react, served: true}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return s, writeKubeconfig(t, server.URL)
}

func (s *restoring) find(name string) *api.Restore {
	if i := slices.IndexFunc(s.list, func(r *api.Restore) bool { return r.Name == name }); i >= 0 {
		return s.list[i]
	}
	return nil
}

// stored has the controller react, and gives the object its version and kind.
func (s *restoring) stored(r *api.Restore) {
	s.version++
	r.ResourceVersion = fmt.Sprint(s.version)
	r.TypeMeta = metav1.TypeMeta{APIVersion: api.GroupVersion.String(), Kind: "Restore"}
	if s.react != nil {
		s.react(r)
	}
}

func (s *restoring) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, name := strings.TrimSuffix(r.URL.Path, "/"), ""
	for _, plural := range []string{"/pods", "/statefulsets", "/restores"} {
		if before, after, ok := strings.Cut(path, plural); ok {
			path, name = before+plural, strings.Trim(after, "/")
		}
	}
	switch {
	case strings.HasSuffix(path, "/restores") && s.served:
		s.restores(w, r, name)
	case strings.HasSuffix(path, "/pods"):
		pods := twoPods()
		if s.late > 0 {
			s.late--
			pods = pods[:1]
		}
		answerOne(w, name, pods, func(p corev1.Pod) string { return p.Name }, map[string]any{"kind": "PodList", "apiVersion": "v1", "items": pods})
	case strings.HasSuffix(path, "/statefulsets"):
		answerOne(w, name, []appsv1.StatefulSet{ring()}, func(p appsv1.StatefulSet) string { return p.Name }, map[string]any{"kind": "StatefulSetList", "apiVersion": "apps/v1", "items": []appsv1.StatefulSet{ring()}})
	default:
		http.NotFound(w, r) // in plain text, as for a resource that there is not
	}
}

func answer(w http.ResponseWriter, code int, what any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(what)
}

func noSuch(w http.ResponseWriter, name string) {
	answer(w, http.StatusNotFound, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound, Message: name + " not found", Details: &metav1.StatusDetails{Name: name}})
}

func answerOne[T any](w http.ResponseWriter, name string, all []T, named func(T) string, list any) {
	if name == "" {
		answer(w, http.StatusOK, list)
		return
	}
	if i := slices.IndexFunc(all, func(t T) bool { return named(t) == name }); i >= 0 {
		answer(w, http.StatusOK, all[i])
		return
	}
	noSuch(w, name)
}

func ring() appsv1.StatefulSet {
	two := int32(2)
	return appsv1.StatefulSet{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"}, ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "db", UID: "ring"},
		Spec: appsv1.StatefulSetSpec{Replicas: &two, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}}}
}

func twoPods() []corev1.Pod {
	var all []corev1.Pod
	yes := true
	for _, name := range []string{"db-0", "db-1"} {
		all = append(all, corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"app": "db", api.LabelInjected: "cassandra"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: "ring", Controller: &yes}}}})
	}
	return all
}

func (s *restoring) restores(w http.ResponseWriter, r *http.Request, name string) {
	if r.URL.Query().Get("watch") != "" {
		s.watch(w, r)
		return
	}
	s.Lock()
	defer s.Unlock()
	body, _ := io.ReadAll(r.Body)
	old := s.find(name)
	switch {
	case r.Method == http.MethodPost:
		made := &api.Restore{}
		if err := json.Unmarshal(body, made); err != nil {
			panic(err)
		}
		made.UID = types.UID(fmt.Sprint("uid-", len(s.list)))
		s.list = append(s.list, made)
		s.stored(made)
		answer(w, http.StatusCreated, made)
	case name == "":
		list := api.RestoreList{TypeMeta: metav1.TypeMeta{APIVersion: api.GroupVersion.String(), Kind: "RestoreList"}}
		for _, restore := range s.list {
			list.Items = append(list.Items, *restore)
		}
		answer(w, http.StatusOK, list)
	case old == nil:
		noSuch(w, name)
	case r.Method == http.MethodDelete:
		s.deleted = append(s.deleted, name)
		s.list = slices.DeleteFunc(s.list, func(r *api.Restore) bool { return r == old })
		answer(w, http.StatusOK, old)
	case r.Method == http.MethodPatch:
		text, _ := json.Marshal(old)
		changed, err := jsonpatch.MergePatch(text, body)
		if err != nil {
			panic(err)
		}
		*old = api.Restore{}
		_ = json.Unmarshal(changed, old)
		s.stored(old)
		answer(w, http.StatusOK, old)
	default:
		answer(w, http.StatusOK, old)
	}
}

// watch sends what has changed since the version that was asked for.
func (s *restoring) watch(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
	last := r.URL.Query().Get("resourceVersion")
	w.Header().Set("Content-Type", "application/json")
	w.(http.Flusher).Flush()
	for r.Context().Err() == nil {
		s.Lock()
		restore := s.find(name)
		var text []byte
		if restore != nil && restore.ResourceVersion != last {
			last = restore.ResourceVersion
			text, _ = json.Marshal(map[string]any{"type": "MODIFIED", "object": restore})
		}
		s.Unlock()
		if text != nil {
			_, _ = w.Write(text)
			w.(http.Flusher).Flush()
		}
		if first := s.watched; first != nil {
			first(name)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
