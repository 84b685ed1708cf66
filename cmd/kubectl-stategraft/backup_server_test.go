package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// keeping answers as an API server that keeps objects of the kinds that backups have to
// do with. A Backup with our finalizer stays while it is being deleted.
type keeping struct {
	sync.Mutex
	objects map[string][]client.Object // by plural
	version int
	// react plays the controllers, each time an object was made or changed.
	react     func(client.Object)
	forbidden string // plural
}

// resources are what is kept, by plural; those that are not are answered as by an API
// server that does not know them.
var resources = map[string]func() client.Object{
	"backups":         func() client.Object { return &api.Backup{} },
	"backupschedules": func() client.Object { return &api.BackupSchedule{} },
	"configmaps":      func() client.Object { return &corev1.ConfigMap{} },
	"events":          func() client.Object { return &corev1.Event{} },
	"namespaces":      func() client.Object { return &corev1.Namespace{} },
	"nodes":           func() client.Object { return &corev1.Node{} },
	"pods":            func() client.Object { return &corev1.Pod{} },
	"secrets":         func() client.Object { return &corev1.Secret{} },
}

func keepingServer(t *testing.T, react func(client.Object), objects ...client.Object) (*keeping, string) {
	t.Helper()
	s := &keeping{react: react, objects: map[string][]client.Object{}}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", Labels: map[string]string{api.LabelInject: api.InjectEnabled}}}
	for _, o := range append([]client.Object{ns}, objects...) {
		s.put(o)
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return s, writeKubeconfig(t, server.URL)
}

func (s *keeping) put(o client.Object) {
	plural := ""
	switch o := o.(type) {
	case *api.Backup:
		plural = "backups"
		o.TypeMeta = metav1.TypeMeta{APIVersion: api.GroupVersion.String(), Kind: "Backup"}
	case *api.BackupSchedule:
		plural = "backupschedules"
	case *corev1.ConfigMap:
		plural = "configmaps"
		o.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
	case *corev1.Event:
		plural = "events"
	case *corev1.Namespace:
		plural = "namespaces"
	case *corev1.Node:
		plural = "nodes"
		o.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}
	case *corev1.Pod:
		plural = "pods"
	case *corev1.Secret:
		plural = "secrets"
		o.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}
	}
	s.version++
	if o.GetUID() == "" {
		o.SetUID(types.UID(fmt.Sprint("uid-", s.version)))
	}
	s.objects[plural] = slices.DeleteFunc(s.objects[plural], func(old client.Object) bool {
		return old.GetName() == o.GetName() && old.GetNamespace() == o.GetNamespace()
	})
	if !o.GetDeletionTimestamp().IsZero() && len(o.GetFinalizers()) == 0 {
		return
	}
	o.SetResourceVersion(fmt.Sprint(s.version))
	s.objects[plural] = append(s.objects[plural], o)
}

// store keeps an object and has the controllers react.
func (s *keeping) store(o client.Object) {
	if s.react != nil {
		s.react(o)
	}
	s.put(o)
}

func (s *keeping) find(plural, namespace, name string) client.Object {
	for _, o := range s.objects[plural] {
		if o.GetName() == name && (namespace == "" || o.GetNamespace() == namespace) {
			return o
		}
	}
	return nil
}

func (s *keeping) backups() []*api.Backup {
	s.Lock()
	defer s.Unlock()
	var all []*api.Backup
	for _, o := range s.objects["backups"] {
		if b, ok := o.(*api.Backup); ok {
			all = append(all, b.DeepCopy())
		}
	}
	return all
}

var resourcePath = regexp.MustCompile(`^/apis?/[a-z0-9./]*?(?:namespaces/([^/]+)/)?([a-z]+)(?:/([^/]+))?/?$`)

func (s *keeping) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	namespace, plural, name := "", "", ""
	if found := resourcePath.FindStringSubmatch(r.URL.Path); found != nil {
		namespace, plural, name = found[1], found[2], found[3]
	}
	if rest, ok := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces"); ok && strings.Count(rest, "/") < 2 {
		namespace, plural, name = "", "namespaces", strings.Trim(rest, "/")
	}
	switch {
	case plural == s.forbidden && plural != "":
		answer(w, http.StatusForbidden, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
			Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden, Message: `User "u" cannot do that`})
	case plural == "statefulsets" && name != "":
		if set := ring(); name == set.Name {
			answer(w, http.StatusOK, set)
			return
		}
		noSuch(w, name)
	case resources[plural] == nil:
		http.NotFound(w, r)
	case r.URL.Query().Get("watch") != "":
		s.watch(w, r, plural, namespace)
	default:
		s.Lock()
		defer s.Unlock()
		s.serve(w, r, plural, namespace, name)
	}
}

func (s *keeping) serve(w http.ResponseWriter, r *http.Request, plural, namespace, name string) {
	body, _ := io.ReadAll(r.Body)
	old := s.find(plural, namespace, name)
	switch {
	case r.Method == http.MethodPost:
		made := resources[plural]()
		_ = json.Unmarshal(body, made)
		if s.find(plural, namespace, made.GetName()) != nil {
			answer(w, http.StatusConflict, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
				Reason: metav1.StatusReasonAlreadyExists, Code: http.StatusConflict, Message: made.GetName() + " already exists"})
			return
		}
		s.store(made)
		answer(w, http.StatusCreated, made)
	case name == "":
		selector, _ := labels.Parse(r.URL.Query().Get("labelSelector"))
		items := []client.Object{}
		for _, o := range s.objects[plural] {
			if (namespace == "" || o.GetNamespace() == namespace) && selector.Matches(labels.Set(o.GetLabels())) {
				items = append(items, o)
			}
		}
		kind := map[string][2]string{"backups": {api.GroupVersion.String(), "BackupList"}, "backupschedules": {api.GroupVersion.String(), "BackupScheduleList"},
			"configmaps": {"v1", "ConfigMapList"}, "events": {"v1", "EventList"}, "namespaces": {"v1", "NamespaceList"}, "nodes": {"v1", "NodeList"}, "pods": {"v1", "PodList"}}[plural]
		answer(w, http.StatusOK, map[string]any{"apiVersion": kind[0], "kind": kind[1], "items": items})
	case old == nil:
		noSuch(w, name)
	case r.Method == http.MethodDelete:
		gone := old.DeepCopyObject().(client.Object)
		gone.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
		s.store(gone)
		answer(w, http.StatusOK, old)
	case r.Method == http.MethodPatch:
		text, _ := json.Marshal(old)
		changed, err := jsonpatch.MergePatch(text, body)
		if err != nil {
			panic(err)
		}
		next := resources[plural]()
		_ = json.Unmarshal(changed, next)
		s.store(next)
		answer(w, http.StatusOK, next)
	default:
		answer(w, http.StatusOK, old)
	}
}

// watch sends what has changed since the version that was asked for, and its end.
func (s *keeping) watch(w http.ResponseWriter, r *http.Request, plural, namespace string) {
	name := strings.TrimPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
	last := r.URL.Query().Get("resourceVersion")
	w.Header().Set("Content-Type", "application/json")
	w.(http.Flusher).Flush()
	for r.Context().Err() == nil {
		s.Lock()
		o := s.find(plural, namespace, name)
		var text []byte
		if o != nil && o.GetResourceVersion() != last {
			last = o.GetResourceVersion()
			text, _ = json.Marshal(map[string]any{"type": "MODIFIED", "object": o})
		}
		s.Unlock()
		if o == nil {
			return
		}
		if text != nil {
			_, _ = w.Write(text)
			w.(http.Flusher).Flush()
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// withRestores is a server that knows Restores, too, and hands over those that are made.
func withRestores(t *testing.T, s *keeping, made func(*api.Restore)) string {
	t.Helper()
	restores := &restoring{served: true, react: made}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/restores") {
			restores.ServeHTTP(w, r)
			return
		}
		s.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return writeKubeconfig(t, server.URL)
}
