package ini

import (
	"slices"
	"strings"
)

func (f *File) section(name string) *group {
	for _, s := range f.sections {
		if s.name == name {
			return s
		}
	}
	return nil
}

func (f *File) add(name string) *group {
	s := &group{name: name, values: map[string]string{}}
	f.sections = append(f.sections, s)
	return s
}

// Sections are the names of all sections but DEFAULT, in the file's order.
func (f *File) Sections() []string {
	var names []string
	for _, s := range f.sections {
		if s.name != Default {
			names = append(names, s.name)
		}
	}
	return names
}

// Get is what Python reads for the key: the section's own value, else the one
// of DEFAULT where the section exists. The second result tells whether there is
// any.
func (f *File) Get(section, key string) (string, bool) {
	s := f.section(section)
	if s == nil {
		return "", false
	}
	if value, ok := s.values[key]; ok {
		return value, true
	}
	if d := f.section(Default); d != nil {
		value, ok := d.values[key]
		return value, ok
	}
	return "", false
}

// Set gives the key of the section, which is made if need be, a value of one
// line. The key has to be in lower case.
func (f *File) Set(section, key, value string) {
	s := f.section(section)
	if s == nil {
		s = f.add(section)
	}
	if _, ok := s.values[key]; !ok {
		s.keys = append(s.keys, key)
	}
	s.values[key] = strings.ReplaceAll(value, "\n", " ")
}

// Remove drops a section with all its keys.
func (f *File) Remove(section string) {
	f.sections = slices.DeleteFunc(f.sections, func(s *group) bool { return s.name == section })
}

// String writes the file so that Parse, and Python, read back the same.
func (f *File) String() string {
	var b strings.Builder
	for i, s := range f.sections {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString("[" + s.name + "]\n")
		for _, key := range s.keys {
			// An indented line continues the value; configparser.write does the same.
			b.WriteString(key + " = " + strings.ReplaceAll(s.values[key], "\n", "\n\t") + "\n")
		}
	}
	return b.String()
}
