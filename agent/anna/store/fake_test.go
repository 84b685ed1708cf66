package store

import (
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// service is what the services that the tests play have in common: objects of one bucket
// called backups, and what goes wrong.
type service struct {
	mutex   sync.Mutex
	objects map[string][]byte
	parts   map[string]map[string][]byte // of what is written in parts, by the upload
	written []string                     // names, in their order
	inParts int                          // objects that came so

	refuse func(*http.Request) int // status of an answer in place of what was asked; 0: none
	cut    int                     // reads that break off
	lost   int                     // conditional writes of which the answer is 503, though they were done
}

func serve(t *testing.T, s *service, handler http.Handler) *httptest.Server {
	s.objects, s.parts = map[string][]byte{}, map[string]map[string][]byte{}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

// with changes the service while it runs.
func (s *service) with(change func(*service)) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	change(s)
}

// names are of the objects that are there.
func (s *service) names() (names []string) {
	s.with(func(s *service) { names = slices.Sorted(maps.Keys(s.objects)) })
	return names
}

// put writes an object, and tells whether the answer is to be lost.
func (s *service) put(name string, content []byte, parts int, conditional bool) (lost bool) {
	s.objects[name] = content
	s.written = append(s.written, name)
	if parts > 1 {
		s.inParts++
	}
	if conditional && s.lost > 0 {
		s.lost--
		return true
	}
	return false
}

// page are up to three names with that prefix after one, and the name to go on with.
func (s *service) page(prefix, after string) (names []string, next string) {
	for _, name := range slices.Sorted(maps.Keys(s.objects)) {
		if !strings.HasPrefix(name, prefix) || name <= after {
			continue
		}
		if len(names) == 3 {
			return names, names[2]
		}
		names = append(names, name)
	}
	return names, ""
}

// read answers with an object from where header asks for it.
func (s *service) read(w http.ResponseWriter, r *http.Request, content []byte, header string) {
	from, status := 0, http.StatusOK
	if text := r.Header.Get(header); text != "" {
		fmt.Sscanf(text, "bytes=%d-", &from) //nolint:errcheck // 0 then
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(content)-1, len(content)))
		status = http.StatusPartialContent
	}
	w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
	w.Header().Set("Content-Length", strconv.Itoa(len(content)-from))
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return
	}
	if s.cut > 0 && len(content)-from > 1000 {
		s.cut--
		w.Write(content[from : from+1000]) //nolint:errcheck // it breaks off in any case
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	w.Write(content[from:]) //nolint:errcheck // the client sees it
}

// drain takes what a request brings, as the services do before they refuse it: the client
// of Google's reads it on, at the next try, while it is sent.
func drain(r *http.Request) {
	io.Copy(io.Discard, r.Body) //nolint:errcheck // it is not wanted
}

// busy refuses each request once, with the two answers in turn by which a service says that it is.
func busy() func(*http.Request) int {
	asked := map[string]bool{}
	return func(r *http.Request) int {
		key := fmt.Sprint(r.Method, " ", r.URL, " ", r.Header.Get("Content-Range"))
		if asked[key] {
			return 0
		}
		asked[key] = true
		if len(asked)%2 == 0 {
			return http.StatusTooManyRequests
		}
		return http.StatusServiceUnavailable
	}
}

// always refuses requests of these methods; of all where none is given.
func always(status int, methods ...string) func(*http.Request) int {
	return func(r *http.Request) int {
		if len(methods) == 0 || slices.Contains(methods, r.Method) {
			return status
		}
		return 0
	}
}

func crc(content []byte) uint32 { return crc32.Checksum(content, crc32.MakeTable(crc32.Castagnoli)) }
