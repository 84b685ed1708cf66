package node

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// IndexWords are what Medusa looks for anywhere in the name of an object of its
// index, the prefix included (medusa/storage/__init__.py, lookup_blob and
// is_tokenmap_file): with the prefix "getting-started_c1" every object looks
// like the mark of a start.
var IndexWords = []string{"tokenmap", "schema", "manifest", "started", "finished", "differential", "incremental"}

// Confusing tells whether a name has such a word in it.
func Confusing(text string) bool {
	for _, word := range IndexWords {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}

// Prefix is the prefix of the storage where medusa.ini names none. It keeps clusters apart in one bucket: nodes are filed under their pods'
// names, which repeat in every namespace. A namespace has no "_" in it, so two
// different pairs never give the same prefix. Medusa allows no slash.
func Prefix(namespace, cluster string) string {
	prefix := namespace
	if cluster != "" {
		prefix += "_" + plain(cluster)
	}
	if Confusing(prefix) || prefix == "" {
		return "stategraft_" + digest(namespace+"_"+cluster)
	}
	return prefix
}

// plain makes a cluster's name fit for an object's name. A digest tells names
// apart that would become the same.
func plain(name string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		}
		return '-'
	}, name)
	if clean == name {
		return name
	}
	return clean + "-" + digest(name)[:6]
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}
