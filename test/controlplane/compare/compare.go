// Package compare tells what an object lost and gained between two states, as
// JSON, so that fields count which no Go type knows.
package compare

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
)

// Lost answers the paths under which before has something that after does not
// have, or has differently. Members and entries that after has in addition are
// no loss. Entries of a list are found again by their name where they have one
// and it is unique, and have to be in the order they were; other lists may only
// have grown at their end.
func Lost(before, after any) []string { return lost("", before, after) }

// Gained is the other way round: what after has in addition.
func Gained(before, after any) []string { return lost("", after, before) }

func lost(path string, before, after any) []string {
	switch b := before.(type) {
	case map[string]any:
		a, ok := after.(map[string]any)
		if !ok {
			return []string{path}
		}
		var gone []string
		for _, key := range sorted(b) {
			value, ok := a[key]
			if !ok {
				gone = append(gone, path+"."+key)
				continue
			}
			gone = append(gone, lost(path+"."+key, b[key], value)...)
		}
		return gone
	case []any:
		a, ok := after.([]any)
		if !ok {
			return []string{path}
		}
		return lostEntries(path, b, a)
	}
	if !reflect.DeepEqual(before, after) {
		return []string{path}
	}
	return nil
}

func lostEntries(path string, before, after []any) []string {
	namesBefore, named := names(before)
	namesAfter, namedAfter := names(after)
	if !named || !namedAfter {
		var gone []string
		for i, entry := range before {
			at := fmt.Sprintf("%s[%d]", path, i)
			if i >= len(after) {
				gone = append(gone, at)
				continue
			}
			gone = append(gone, lost(at, entry, after[i])...)
		}
		return gone
	}
	var gone []string
	last := -1
	for i, name := range namesBefore {
		at := fmt.Sprintf("%s[%s]", path, name)
		j := slices.Index(namesAfter, name)
		if j < 0 {
			gone = append(gone, at)
			continue
		}
		if j < last {
			gone = append(gone, at+" (out of order)")
		}
		last = max(last, j)
		gone = append(gone, lost(at, before[i], after[j])...)
	}
	return gone
}

// names are those of the entries, if each is an object with one of its own.
func names(list []any) ([]string, bool) {
	var found []string
	for _, entry := range list {
		object, ok := entry.(map[string]any)
		if !ok {
			return nil, false
		}
		name, ok := object["name"].(string)
		if !ok || slices.Contains(found, name) {
			return nil, false
		}
		found = append(found, name)
	}
	return found, true
}

// JSON turns a value into what encoding/json decodes it to.
func JSON(value any) (any, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var out any
	return out, json.Unmarshal(text, &out)
}

func sorted(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
