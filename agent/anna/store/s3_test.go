package store

import (
	"encoding/xml"
	"fmt"
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

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/stategraft/stategraft/agent/ini"
)

// bucket is as much of S3 as a Store needs, path style, without looking at signatures.
type bucket struct {
	mutex        sync.Mutex
	objects      map[string][]byte
	parts        map[string]map[int][]byte // of uploads
	noConditions bool                      // If-None-Match is refused, as by services that do not know it
	cut          int                       // answers of GET that break off
	stalls       int                       // that stand still instead
	refused      int
}

func serveS3(t *testing.T) (*bucket, *httptest.Server) {
	b := &bucket{objects: map[string][]byte{}, parts: map[string]map[int][]byte{}}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	return b, server
}

func fail(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s</Message></Error>", code, code)
}

func (b *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	name, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	query := r.URL.Query()
	content, is := b.objects[key]
	switch {
	case !strings.Contains(r.Header.Get("Authorization"), "Credential=key-id/"):
		fail(w, http.StatusForbidden, "InvalidAccessKeyId")
	case name != "backups":
		fail(w, http.StatusNotFound, "NoSuchBucket")
	case r.Method == http.MethodGet && key == "":
		b.list(w, query.Get("prefix"), query.Get("continuation-token"))
	case r.Method == http.MethodPut || r.Method == http.MethodPost:
		b.write(w, r, key)
	case r.Method == http.MethodDelete:
		delete(b.objects, key)
		w.WriteHeader(http.StatusNoContent)
	case !is:
		fail(w, http.StatusNotFound, "NoSuchKey")
	default:
		w.Header().Set("Last-Modified", time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC).Format(http.TimeFormat))
		b.read(w, r, content)
	}
}

func (b *bucket) read(w http.ResponseWriter, r *http.Request, content []byte) {
	from, ranged := 0, r.Header.Get("Range") != ""
	if ranged {
		fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from) //nolint:errcheck // 0 then
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(content)-1, len(content)))
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(content)-from))
	if ranged {
		w.WriteHeader(http.StatusPartialContent)
	}
	if r.Method == http.MethodHead {
		return
	}
	if b.cut > 0 && len(content)-from > 100 {
		b.cut--
		w.Write(content[from : from+100]) //nolint:errcheck // it breaks off in any case
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	if b.stalls > 0 && len(content)-from > 100 {
		b.stalls--
		w.Write(content[from : from+100]) //nolint:errcheck // it goes on there
		_ = http.NewResponseController(w).Flush()
		b.mutex.Unlock()
		<-r.Context().Done()
		b.mutex.Lock()
		panic(http.ErrAbortHandler)
	}
	w.Write(content[from:]) //nolint:errcheck // the client sees it
}

func (b *bucket) write(w http.ResponseWriter, r *http.Request, key string) {
	query := r.URL.Query()
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if r.Header.Get("If-None-Match") != "" {
		if b.noConditions {
			b.refused++
			fail(w, http.StatusNotImplemented, "NotImplemented")
			return
		}
		if _, is := b.objects[key]; is {
			fail(w, http.StatusPreconditionFailed, "PreconditionFailed")
			return
		}
	}
	w.Header().Set("ETag", `"e"`)
	switch id := query.Get("uploadId"); {
	case query.Has("uploads"):
		id = strconv.Itoa(len(b.parts))
		b.parts[id] = map[int][]byte{}
		fmt.Fprintf(w, "<InitiateMultipartUploadResult><UploadId>%s</UploadId></InitiateMultipartUploadResult>", id)
	case query.Has("partNumber"):
		number, _ := strconv.Atoi(query.Get("partNumber"))
		b.parts[id][number] = content
	case id != "":
		var whole []byte
		for _, n := range slices.Sorted(maps.Keys(b.parts[id])) {
			whole = append(whole, b.parts[id][n]...)
		}
		b.objects[key] = whole
		fmt.Fprint(w, "<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>")
	default:
		b.objects[key] = content
	}
}

func (b *bucket) list(w http.ResponseWriter, prefix, after string) {
	type object struct {
		Key          string
		Size         int
		LastModified string
	}
	var page struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		IsTruncated           bool
		NextContinuationToken string `xml:",omitempty"`
		Contents              []object
	}
	for _, key := range slices.Sorted(maps.Keys(b.objects)) {
		if !strings.HasPrefix(key, prefix) || key <= after {
			continue
		}
		if len(page.Contents) == 3 { // pages are small, so that there are several
			page.IsTruncated, page.NextContinuationToken = true, page.Contents[2].Key
			break
		}
		page.Contents = append(page.Contents, object{key, len(b.objects[key]), "2026-11-30T08:00:00.000Z"})
	}
	if err := xml.NewEncoder(w).Encode(page); err != nil {
		panic(err)
	}
}

// A service that refuses what it did before, one of which the bucket is gone, and one that
// has put all into an archive: none is a lost pack, nor a backup that is not there.
func TestS3Refuses(t *testing.T) {
	for code, status := range map[string]int{"AccessDenied": http.StatusForbidden, "NoSuchBucket": http.StatusNotFound, "ObjectNotInActiveTierError": http.StatusForbidden} {
		t.Run(code, func(t *testing.T) {
			b, _ := serveS3(t)
			before := &service{}
			server := serve(t, before, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				refused := 0
				before.with(func(s *service) {
					if s.refuse != nil {
						refused = s.refuse(r)
					}
				})
				if refused != 0 {
					fail(w, refused, code)
					return
				}
				b.ServeHTTP(w, r)
			}))
			before.objects = b.objects
			refusing(t, opened(t, s3INI(t, server.Listener.Addr().String(), "key-id")), before, always(status))
		})
	}
}

// Where the bucket is looked for is what medusa.ini says.
func TestS3URL(t *testing.T) {
	key := "key_file = " + written(t, "[default]\naws_access_key_id = i\naws_secret_access_key = s\n") + "\n"
	for text, want := range map[string]string{
		"storage_provider = s3\n":                                                                           "https://backups.s3.us-east-1.amazonaws.com/k",
		"storage_provider = s3\nregion = default\n":                                                         "https://backups.s3.us-east-1.amazonaws.com/k",
		"storage_provider = s3\nregion = eu-west-3\ns3_addressing_style = path\n":                           "https://s3.eu-west-3.amazonaws.com/backups/k",
		"storage_provider = s3_eu_west2\n":                                                                  "https://backups.s3.eu-west-2.amazonaws.com/k",
		"storage_provider = s3_compatible\nhost = minio\nport = 9000\nsecure = False\n":                     "http://minio:9000/backups/k",
		"storage_provider = s3_compatible\nhost = s3.example.org\nport = 443\ns3_addressing_style = auto\n": "https://s3.example.org:443/backups/k",
		"storage_provider = s3_rgw\nhost = s3.example.org\ns3_addressing_style = virtual\n":                 "https://backups.s3.example.org/k",
		"storage_provider = ibm_storage\nhost = s3.eu-de.example.org\nregion = default\nsecure = True\n":    "https://s3.eu-de.example.org/backups/k",
		"storage_provider = s3_compatible\nhost = fd00::1\nport = 9000\nsecure = off\nregion = anywhere\n":  "http://[fd00::1]:9000/backups/k",
		"storage_provider = s3_compatible\nhost = minio:9000\nsecure = False\n":                             "http://minio:9000/backups/k",
		"storage_provider = s3_compatible\nhost = s3.example.org/storage/v1/s3\n":                           "https://s3.example.org/storage/v1/s3/backups/k",
		"storage_provider = s3_compatible\nhost = 127.0.0.1\nsecure = False\ns3_addressing_style = path\n":  "http://127.0.0.1/backups/k",
	} {
		file, err := ini.Parse("[storage]\nbucket_name = backups\n" + key + text)
		if err != nil {
			t.Fatal(err)
		}
		c, err := FromINI(file, Defaults{})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		opened, err := openS3(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		var client *s3.Client
		if !opened.As(&client) {
			t.Fatal("no client of S3")
		}
		name, object := "backups", "k"
		got, err := s3.NewPresignClient(client).PresignGetObject(t.Context(), &s3.GetObjectInput{Bucket: &name, Key: &object})
		if err != nil {
			t.Fatal(err)
		}
		if url, _, _ := strings.Cut(got.URL, "?"); url != want {
			t.Errorf("%s: %s, want %s", text, url, want)
		}
	}
}
