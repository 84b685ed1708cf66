package workload

import "strings"

// imageName is an image reference taken apart as far as recognition needs it.
type imageName struct {
	path []string // repository path without the registry's host
	base string   // last element of the path
}

// parseImage never fails: a name that is no valid reference only matches less.
func parseImage(image string) imageName {
	image, _, _ = strings.Cut(image, "@")
	parts := strings.Split(strings.ToLower(image), "/")
	last := len(parts) - 1
	parts[last], _, _ = strings.Cut(parts[last], ":")
	if last > 0 && (strings.ContainsAny(parts[0], ".:") || parts[0] == "localhost") {
		parts = parts[1:]
	}
	return imageName{path: parts, base: parts[len(parts)-1]}
}

// within tells whether an element of the path before the last starts with prefix.
func (n imageName) within(prefix string) bool {
	for _, part := range n.path[:len(n.path)-1] {
		if strings.HasPrefix(part, prefix) {
			return true
		}
	}
	return false
}

// words splits a name at everything that is neither a letter nor a digit, and
// drops digits at a word's end (cassandra0).
func words(name string) []string {
	fields := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	for i, field := range fields {
		if trimmed := strings.TrimRight(field, "0123456789"); trimmed != "" {
			fields[i] = trimmed
		}
	}
	return fields
}

func hasWord(name string, wanted ...string) bool {
	for _, word := range words(name) {
		for _, want := range wanted {
			if word == want {
				return true
			}
		}
	}
	return false
}

// helperWords name programs that live beside a database or talk to it. In the
// name of an image they say that the image is not the database.
var helperWords = []string{
	"exporter", "reaper", "sidecar", "icarus", "esop", "logger", "bootstrap", "bootstrapper", "init",
	"backup", "backrest", "backups", "restore", "snapshot", "schema", "stargate", "agent", "builder", "config",
	"metrics", "medusa", "web", "ui", "proxy", "migrate", "migration", "migrations", "migrator",
	"operator", "cqlsh", "nodetool", "stress", "client", "dashboard", "repair", "probe", "tools", "toolbox",
	"loader", "bulk", "monitor", "api", "apis", "cdc", "connector", "sink", "source", "trireme", "driver",
	"frontend", "gateway", "adapter", "shell", "console", "importer", "test", "tests",
}

func helperImage(name imageName) bool { return hasWord(name.base, helperWords...) }
