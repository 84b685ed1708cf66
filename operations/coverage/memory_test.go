package coverage

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
)

// perPod is what a pod may cost in the cache, in bytes. It is 530, and 3,900 with
// all that an API server sends: 20,000 pods take 10 MB.
const perPod = 800

// TestMemory fills the store of an informer with pods as an API server sends
// them.
func TestMemory(t *testing.T) {
	const pods = 4000
	heap := func() int64 {
		runtime.GC()
		runtime.GC() // what a sync.Pool keeps goes with the second
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	fill := func() int64 {
		store := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
		before := heap()
		fillStore(t, store, pods)
		each := (heap() - before) / pods
		runtime.KeepAlive(store)
		return each
	}
	// What the tests before this one still take or give back counts too: the middle one of
	// three is ours.
	measured := []int64{fill(), fill(), fill()}
	slices.Sort(measured)
	each := measured[1]
	t.Logf("%d bytes a pod", each)
	if each > perPod || each < perPod/10 {
		t.Errorf("%d bytes a pod, at most %d and not next to nothing", each, perPod)
	}
}

// fillStore puts pods into a store as the informer does.
func fillStore(t *testing.T, store toolscache.Indexer, pods int) {
	t.Helper()
	fields := `{"f:metadata":{"f:labels":{` + strings.Repeat(`"f:app":{},`, 200) + `"f:x":{}}}}`
	for i := range pods {
		text := fmt.Sprintf(`{"metadata":{"name":"web-frontend-6d5f7c9b4-%05d","namespace":"team-%03d","uid":"5f1c8a52-0000-4000-8000-%012d",
			"resourceVersion":"%d","creationTimestamp":"2026-03-01T12:00:00Z","generateName":"web-frontend-6d5f7c9b4-",
			"labels":{"app":"web","pod-template-hash":"6d5f7c9b4","team":"x"},"annotations":{"kubectl.kubernetes.io/restartedAt":"x"},
			"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-frontend-6d5f7c9b4","uid":"u"}],
			"managedFields":[{"manager":"kubelet","fieldsV1":%s}]}}`, i, i%100, i, i, fields)
		pod := &metav1.PartialObjectMetadata{}
		if err := json.Unmarshal([]byte(text), pod); err != nil {
			t.Fatal(err)
		}
		stripped, err := stripPod(pod)
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Add(stripped); err != nil {
			t.Fatal(err)
		}
	}
}
