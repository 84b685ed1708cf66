package workload

import "strings"

// imageName is an image reference taken apart as far as recognition needs it.
// References and container names are lower case by their own rules, so nothing
// is folded here; the parts share the reference's memory.
type imageName struct {
	path string // repository without the registry's host, tag and digest
	base string // last element of the path
}

// parseImage never fails: a name that is no valid reference only matches less.
func parseImage(image string) imageName {
	image, _, _ = strings.Cut(image, "@")
	slash := strings.LastIndexByte(image, '/')
	if colon := strings.LastIndexByte(image, ':'); colon > slash {
		image = image[:colon]
	}
	if host, rest, ok := strings.Cut(image, "/"); ok && (strings.ContainsAny(host, ".:") || host == "localhost") {
		image = rest
	}
	return imageName{path: image, base: image[strings.LastIndexByte(image, '/')+1:]}
}

// within tells whether an element of the path before the last starts with prefix.
func (n imageName) within(prefix string) bool {
	for dir := n.path[:len(n.path)-len(n.base)]; dir != ""; {
		element, rest, _ := strings.Cut(dir, "/")
		if strings.HasPrefix(element, prefix) {
			return true
		}
		dir = rest
	}
	return false
}

// official tells whether the repository is Docker's own of that name.
func (n imageName) official(name string) bool { return n.path == name || n.path == "library/"+name }

// nextWord splits a name at whatever is neither a letter nor a digit, and drops
// digits at a word's end (cassandra0). An empty word means the end.
func nextWord(name string) (word, rest string) {
	start := 0
	for start < len(name) && !alphanumeric(name[start]) {
		start++
	}
	end := start
	for end < len(name) && alphanumeric(name[end]) {
		end++
	}
	word, rest = name[start:end], name[end:]
	if trimmed := strings.TrimRight(word, "0123456789"); trimmed != "" {
		word = trimmed
	}
	return word, rest
}

func alphanumeric(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= '0' && b <= '9' || b >= 'A' && b <= 'Z'
}

func hasWord(name string, wanted ...string) bool {
	for word, rest := nextWord(name); word != ""; word, rest = nextWord(rest) {
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
var helperWords = func() map[string]bool {
	set := map[string]bool{}
	for _, word := range strings.Fields(`
		exporter reaper sidecar icarus esop logger bootstrap bootstrapper init backup backrest backups restore
		snapshot schema stargate agent builder config metrics medusa web ui proxy migrate migration migrations
		migrator operator cqlsh nodetool stress client dashboard repair probe tools toolbox loader bulk monitor
		api apis cdc connector sink source trireme driver frontend gateway adapter shell console importer test tests`) {
		set[word] = true
	}
	return set
}()

func hasHelperWord(name string) bool {
	for word, rest := nextWord(name); word != ""; word, rest = nextWord(rest) {
		if helperWords[word] {
			return true
		}
	}
	return false
}

func helperImage(name imageName) bool { return hasHelperWord(name.base) }

// isServerImage tells whether the image's name is that of Cassandra, or of
// something that speaks and stores as it does, whatever registry it comes from.
func isServerImage(base string) bool {
	switch base {
	case "cassandra", "apache-cassandra", "cassandra-node", "cassandra-server", "cassandra-management",
		"cassandra-lucene-index", "cass-management-api", "dse", "dse-server", "hcd",
		"elassandra", "elassandra-node", "axondb-timeseries":
		return true
	}
	if strings.HasPrefix(base, "dse-mgmtapi") {
		return true
	}
	version, ok := strings.CutPrefix(base, "cassandra") // cassandra-3.11.9, cassandra5
	return ok && version != "" && strings.Trim(version, "-.0123456789") == ""
}

// isServerName tells whether a container is named as Cassandra's are: alone, as
// a Helm chart's <release>-cassandra, or numbered (Netcracker's cassandra0).
func isServerName(name string) bool {
	switch name {
	case "elassandra", "dse", "hcd", "axondb-timeseries":
		return true
	}
	name = strings.TrimRight(name, "0123456789")
	return name == "cassandra" || strings.HasSuffix(name, "-cassandra")
}
