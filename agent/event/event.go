// Package event writes what happens in the pod: one JSON object a line, without
// secrets.
package event

import (
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// shortest is the length in bytes from which a value is hidden: a shorter one
// would blank out parts of innocent words.
const shortest = 4

// Secrets are the values that must not appear in the log. The zero value hides
// nothing; the methods may be called at once from several goroutines.
type Secrets struct {
	mutex  sync.Mutex
	values []string
}

// Learn reads files that hold secrets, where they exist: a file named username
// or password as a whole, else the values of an AWS credentials file or of a
// JSON object whose keys speak of keys, secrets, tokens or passwords. It is
// called again before what may have changed is used.
func (s *Secrets) Learn(paths ...string) {
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if filepath.Base(path) == "password" {
			s.Add(strings.TrimSpace(string(content)))
			continue
		}
		var object map[string]any
		if json.Unmarshal(content, &object) == nil {
			for key, value := range object {
				if text, ok := value.(string); ok && telling(key) {
					s.Add(text)
				}
			}
			continue
		}
		for line := range strings.Lines(string(content)) {
			if key, value, ok := strings.Cut(line, "="); ok && telling(key) {
				s.Add(strings.TrimSpace(value))
			}
		}
	}
}

// Add hides a value, and its form inside a JSON string. "cassandra", the
// password of every fresh cluster, is no secret but a word of most lines.
func (s *Secrets) Add(value string) {
	if len(value) < shortest || value == "cassandra" {
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	quoted, err := json.Marshal(value)
	forms := []string{value}
	if err == nil {
		forms = append(forms, string(quoted[1:len(quoted)-1]))
	}
	for _, form := range forms {
		if !slices.Contains(s.values, form) {
			s.values = append(s.values, form)
		}
	}
	// The longest first, or what contains another secret is hidden in part.
	slices.SortFunc(s.values, func(a, b string) int { return len(b) - len(a) })
}

// Hide replaces the secrets in a text.
func (s *Secrets) Hide(text string) string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, value := range s.values {
		text = strings.ReplaceAll(text, value, "***")
	}
	return text
}

func telling(key string) bool {
	key = strings.ToLower(key)
	for _, word := range []string{"secret", "token", "password", "key"} {
		// The id of a key is not secret, and helps to find a wrong one.
		if strings.Contains(key, word) && !strings.HasSuffix(strings.TrimSpace(key), "_id") {
			return true
		}
	}
	return false
}

type hiding struct {
	out     io.Writer
	secrets *Secrets
}

func (h hiding) Write(line []byte) (int, error) {
	if _, err := h.out.Write([]byte(h.secrets.Hide(string(line)))); err != nil {
		return 0, err
	}
	return len(line), nil
}

// New makes the log of one part of the agent.
func New(out io.Writer, secrets *Secrets, part string) *slog.Logger {
	return slog.New(slog.NewJSONHandler(hiding{out, secrets}, nil)).With("part", part)
}

// limit is what kubelet keeps of a termination message, in bytes.
const limit = 4096

// Terminate leaves a message where kubelet reads it when the container has
// ended. A container without that file falls back to its log.
func Terminate(path, message string) {
	if len(message) > limit {
		message = message[:limit]
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return
	}
	defer file.Close()
	_, _ = file.WriteString(message)
}
