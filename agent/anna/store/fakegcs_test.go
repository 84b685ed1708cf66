package store

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// gcs is as much of Google Cloud Storage as a Store needs, with the places where a key of
// a service account and a workload identity are exchanged for a token.
type gcs struct {
	service
	anyone   bool   // needs no token
	revoked  bool   // the key is no more, and neither is the identity
	hurried  bool   // asks for tokens too often
	words    string // with which it refuses
	tokens   int    // given for the key
	metadata int    // given to the pod's identity
}

func (g *gcs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	switch {
	case r.URL.Path == "/token":
		g.token(w, r)
		return
	case strings.HasPrefix(r.URL.Path, "/computeMetadata/"):
		g.identity(w, r)
		return
	case r.Header.Get("Authorization") != "Bearer good" && !g.anyone:
		refuseGCS(w, http.StatusUnauthorized, "Invalid Credentials")
		return
	}
	if g.refuse != nil {
		if status := g.refuse(r); status != 0 {
			drain(r)
			refuseGCS(w, status, cmp.Or(g.words, "refused"))
			return
		}
	}
	path := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/upload"), "/storage/v1/b")
	bucket, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch name, api := strings.CutPrefix(rest, "o/"); {
	case bucket != "backups":
		refuseGCS(w, http.StatusNotFound, "The specified bucket does not exist.")
	case path == r.URL.Path: // the XML API, for reading
		g.object(w, r, rest, true)
	case rest == "o" && r.Method == http.MethodGet:
		g.list(w, r.URL.Query().Get("prefix"), r.URL.Query().Get("pageToken"))
	case rest == "o":
		g.upload(w, r)
	case api:
		g.object(w, r, name, false)
	default:
		refuseGCS(w, http.StatusBadRequest, r.URL.Path)
	}
}

func refuseGCS(w http.ResponseWriter, status int, message string) {
	answerJSON(w, status, map[string]any{"error": map[string]any{"code": status, "message": message}})
}

func answerJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		panic(err)
	}
}

// token is for a signed claim of the service account's.
func (g *gcs) token(w http.ResponseWriter, r *http.Request) {
	if g.hurried {
		answerJSON(w, http.StatusTooManyRequests, map[string]any{"error": "rate_limit_exceeded"})
		return
	}
	claim, err := base64.RawURLEncoding.DecodeString(strings.Split(r.PostFormValue("assertion")+"..", ".")[1])
	if g.revoked || err != nil || !bytes.Contains(claim, []byte("medusa@project")) || !bytes.Contains(claim, []byte("devstorage.read_write")) {
		answerJSON(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant", "error_description": "Invalid JWT Signature."})
		return
	}
	g.tokens++
	answerJSON(w, http.StatusOK, map[string]any{"access_token": "good", "token_type": "Bearer", "expires_in": 3600})
}

// identity is what a pod is told by the machine's metadata server.
func (g *gcs) identity(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/service-accounts/default/token") || r.Header.Get("Metadata-Flavor") != "Google" {
		http.NotFound(w, r)
		return
	}
	if g.revoked {
		http.Error(w, "Unable to generate access token; IAM returned 403 Forbidden", http.StatusForbidden)
		return
	}
	g.metadata++
	answerJSON(w, http.StatusOK, map[string]any{"access_token": "good", "token_type": "Bearer", "expires_in": 3600})
}

func (g *gcs) about(name string) map[string]any {
	now := time.Now().UTC().Format(time.RFC3339)
	sum := base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc(g.objects[name])))
	return map[string]any{"bucket": "backups", "name": name, "size": strconv.Itoa(len(g.objects[name])), "updated": now, "timeCreated": now, "crc32c": sum, "etag": "e", "generation": "1"}
}

func (g *gcs) list(w http.ResponseWriter, prefix, after string) {
	names, next := g.page(prefix, after)
	items := []any{}
	for _, name := range names {
		items = append(items, g.about(name))
	}
	answerJSON(w, http.StatusOK, map[string]any{"items": items, "nextPageToken": next})
}

func (g *gcs) object(w http.ResponseWriter, r *http.Request, name string, media bool) {
	content, is := g.objects[name]
	switch {
	case !is:
		refuseGCS(w, http.StatusNotFound, "No such object: backups/"+name)
	case r.Method == http.MethodDelete:
		delete(g.objects, name)
		w.WriteHeader(http.StatusNoContent)
	case media:
		w.Header().Set("X-Goog-Generation", "1")
		w.Header().Set("X-Goog-Hash", "crc32c="+g.about(name)["crc32c"].(string))
		g.read(w, r, content, "Range")
	default:
		answerJSON(w, http.StatusOK, g.about(name))
	}
}

// upload takes an object whole, or a piece at a time.
func (g *gcs) upload(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	switch query.Get("uploadType") {
	case "multipart":
		_, parameters, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
		name, content := "", []byte(nil)
		pieces := multipart.NewReader(r.Body, parameters["boundary"])
		for i := 0; ; i++ {
			piece, err := pieces.NextPart()
			if err == io.EOF {
				break
			} else if err != nil {
				return
			}
			if i == 0 {
				name = nameOf(piece)
			} else if content, err = io.ReadAll(piece); err != nil {
				return
			}
		}
		g.store(w, name, content, 1, query.Get("ifGenerationMatch") == "0")
	case "resumable":
		if id := query.Get("upload_id"); id != "" {
			g.piece(w, r, id)
			return
		}
		id := fmt.Sprint(len(g.parts), " ", nameOf(r.Body))
		g.parts[id] = map[string][]byte{}
		query.Set("upload_id", id)
		scheme := "http://"
		if r.TLS != nil {
			scheme = "https://"
		}
		w.Header().Set("Location", scheme+r.Host+r.URL.Path+"?"+query.Encode())
	default:
		refuseGCS(w, http.StatusBadRequest, "no such upload")
	}
}

// piece is one of an upload.
func (g *gcs) piece(w http.ResponseWriter, r *http.Request, id string) {
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	whole := append(g.parts[id]["whole"], content...)
	g.parts[id]["whole"] = whole
	g.parts[id]["pieces"] = append(g.parts[id]["pieces"], 1)
	if strings.HasSuffix(r.Header.Get("Content-Range"), "/*") {
		w.Header().Set("X-Http-Status-Code-Override", "308")
		w.Header().Set("Range", fmt.Sprintf("bytes=0-%d", len(whole)-1))
		if r.Header.Get("X-Guploader-No-308") != "yes" {
			w.WriteHeader(http.StatusPermanentRedirect)
		}
		return
	}
	_, name, _ := strings.Cut(id, " ")
	g.store(w, name, whole, len(g.parts[id]["pieces"]), r.URL.Query().Get("ifGenerationMatch") == "0")
}

func (g *gcs) store(w http.ResponseWriter, name string, content []byte, parts int, conditional bool) {
	if _, is := g.objects[name]; is && conditional {
		refuseGCS(w, http.StatusPreconditionFailed, "At least one of the pre-conditions you specified did not hold.")
		return
	}
	if g.put(name, content, parts, conditional) {
		refuseGCS(w, http.StatusServiceUnavailable, "lost")
		return
	}
	answerJSON(w, http.StatusOK, g.about(name))
}

func nameOf(about io.Reader) string {
	var is struct{ Name string }
	if err := json.NewDecoder(about).Decode(&is); err != nil {
		panic(err)
	}
	return is.Name
}
