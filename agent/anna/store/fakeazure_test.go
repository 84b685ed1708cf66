package store

import (
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// azure is as much of Azure Blob Storage as a Store needs, with the account in the path, and
// the place where a managed identity is exchanged for a token.
type azure struct {
	service
	code   string // of what refuse refuses
	tokens int
	none   bool // there is no identity
}

func (a *azure) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if r.URL.Path == "/identity" {
		a.identity(w, r)
		return
	}
	if who := r.Header.Get("Authorization"); !strings.HasPrefix(who, "SharedKey account:") && who != "Bearer good" {
		refuseAzure(w, http.StatusForbidden, "AuthenticationFailed")
		return
	}
	if a.refuse != nil {
		if status := a.refuse(r); status != 0 {
			drain(r)
			refuseAzure(w, status, a.code)
			return
		}
	}
	account, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	container, name, _ := strings.Cut(rest, "/")
	query := r.URL.Query()
	content, is := a.objects[name]
	switch {
	case account != "account":
		refuseAzure(w, http.StatusBadRequest, "InvalidUri")
	case container != "backups":
		refuseAzure(w, http.StatusNotFound, "ContainerNotFound")
	case query.Get("comp") == "list":
		a.list(w, query.Get("prefix"), query.Get("marker"))
	case r.Method == http.MethodPut:
		a.write(w, r, name)
	case !is:
		refuseAzure(w, http.StatusNotFound, "BlobNotFound")
	case r.Method == http.MethodDelete:
		delete(a.objects, name)
		w.WriteHeader(http.StatusAccepted)
	default:
		w.Header().Set("X-Ms-Creation-Time", time.Now().UTC().Format(http.TimeFormat))
		w.Header().Set("X-Ms-Blob-Type", "BlockBlob")
		a.read(w, r, content, "X-Ms-Range")
	}
}

func refuseAzure(w http.ResponseWriter, status int, code string) {
	w.Header().Set("X-Ms-Error-Code", code)
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s</Message></Error>", code, code)
}

// identity is what a program is told of whom it runs as.
func (a *azure) identity(w http.ResponseWriter, r *http.Request) {
	if a.none || r.Header.Get("X-Identity-Header") != "secret" || r.URL.Query().Get("resource") != "https://storage.azure.com" {
		answerJSON(w, http.StatusBadRequest, map[string]any{"error": "invalid_request", "error_description": "Identity not found"})
		return
	}
	a.tokens++
	answerJSON(w, http.StatusOK, map[string]any{"access_token": "good", "token_type": "Bearer", "resource": "https://storage.azure.com",
		"expires_on": fmt.Sprint(time.Now().Add(time.Hour).Unix())})
}

func (a *azure) list(w http.ResponseWriter, prefix, after string) {
	type blob struct {
		Name         string
		LastModified string `xml:"Properties>Last-Modified"`
		Size         int    `xml:"Properties>Content-Length"`
		Type         string `xml:"Properties>BlobType"`
	}
	var page struct {
		XMLName    xml.Name `xml:"EnumerationResults"`
		Blobs      []blob   `xml:"Blobs>Blob"`
		NextMarker string
	}
	names, next := a.page(prefix, after)
	for _, name := range names {
		page.Blobs = append(page.Blobs, blob{name, time.Now().UTC().Format(http.TimeFormat), len(a.objects[name]), "BlockBlob"})
	}
	page.NextMarker = next
	w.Header().Set("Content-Type", "application/xml")
	if err := xml.NewEncoder(w).Encode(page); err != nil {
		panic(err)
	}
}

// write takes an object whole, a block of one, or the list of its blocks.
func (a *azure) write(w http.ResponseWriter, r *http.Request, name string) {
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	query, parts := r.URL.Query(), 1
	switch query.Get("comp") {
	case "block":
		if a.parts[name] == nil {
			a.parts[name] = map[string][]byte{}
		}
		a.parts[name][query.Get("blockid")] = content
		w.WriteHeader(http.StatusCreated)
		return
	case "blocklist":
		var list struct{ Latest []string }
		if err := xml.Unmarshal(content, &list); err != nil {
			refuseAzure(w, http.StatusBadRequest, "InvalidXmlDocument")
			return
		}
		content, parts = nil, len(list.Latest)
		for _, id := range list.Latest {
			block, is := a.parts[name][id]
			if !is {
				refuseAzure(w, http.StatusBadRequest, "InvalidBlockList")
				return
			}
			content = append(content, block...)
		}
	default:
		if r.Header.Get("X-Ms-Blob-Type") != "BlockBlob" {
			refuseAzure(w, http.StatusBadRequest, "InvalidHeaderValue")
			return
		}
	}
	conditional := r.Header.Get("If-None-Match") == "*"
	if _, is := a.objects[name]; is && conditional {
		refuseAzure(w, http.StatusConflict, "BlobAlreadyExists")
		return
	}
	if a.put(name, content, parts, conditional) {
		refuseAzure(w, http.StatusServiceUnavailable, "ServerBusy")
		return
	}
	w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
	w.Header().Set("Etag", `"e"`)
	w.WriteHeader(http.StatusCreated)
}
