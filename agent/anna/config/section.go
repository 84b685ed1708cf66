package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// section is a mapping of a file, each key once, in the order of the file.
type section struct {
	file  string // for messages
	path  string // of the section, "" for the whole file, else "threads."
	line  int
	pairs []pair
}

type pair struct {
	key   string
	line  int
	value *yaml.Node
}

// parse reads a file, and refuses what Anna and Cloudburst would read in different ways.
func parse(file string, text []byte) (*section, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document yaml.Node
	err := decoder.Decode(&document)
	if errors.Is(err, io.EOF) {
		return &section{file: file, line: 1}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s is not YAML: %s; indent with spaces, and put values with : or # in quotes", file, trim(err))
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s has more than one document, of which Anna reads the first: take out the line ---", file)
	}
	if len(document.Content) == 1 && document.Content[0].Tag == "!!null" {
		return &section{file: file, line: 1}, nil
	}
	return newSection(file, "", document.Content[0])
}

func newSection(file, path string, node *yaml.Node) (*section, error) {
	s := &section{file: file, path: path, line: node.Line}
	if node.Kind == yaml.AliasNode {
		return nil, alias(file, node)
	}
	if node.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s, line %d: %s is no section with keys; write each key in a line below it, indented", file, node.Line, s.name())
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" {
			return nil, fmt.Errorf("%s, line %d: a key that is no plain word; Anna knows no <<, write the keys out", file, key.Line)
		}
		if other := s.find(key.Value); other != nil {
			return nil, fmt.Errorf("%s: %s%s is there twice, lines %d and %d: Anna takes the first, Cloudburst the last; take one out",
				file, path, key.Value, other.line, key.Line)
		}
		if err := once(file, path+key.Value+".", value); err != nil {
			return nil, err
		}
		s.pairs = append(s.pairs, pair{key.Value, key.Line, value})
	}
	return s, nil
}

// once checks that nothing below a value is there twice.
func once(file, path string, node *yaml.Node) error {
	switch node.Kind {
	case yaml.MappingNode:
		_, err := newSection(file, path, node)
		return err
	case yaml.SequenceNode:
		for _, entry := range node.Content {
			if err := once(file, path, entry); err != nil {
				return err
			}
		}
	case yaml.AliasNode:
		return alias(file, node)
	}
	return nil
}

// alias refuses *name: what one stands for may be itself.
func alias(file string, node *yaml.Node) error {
	return fmt.Errorf("%s, line %d: *%s stands for what is written elsewhere; write it out", file, node.Line, node.Value)
}

func (s *section) name() string {
	if s.path == "" {
		return "it"
	}
	return strings.TrimSuffix(s.path, ".")
}

func (s *section) find(key string) *pair {
	for i := range s.pairs {
		if s.pairs[i].key == key {
			return &s.pairs[i]
		}
	}
	return nil
}

// section is a section below this one, or one without keys where there is none.
func (s *section) section(key string) (*section, error) {
	p := s.find(key)
	if p == nil || p.value.Tag == "!!null" {
		return &section{file: s.file, path: s.path + key + ".", line: s.line}, nil
	}
	return newSection(s.file, s.path+key+".", p.value)
}

// fail is an error about a key of the section.
func (s *section) fail(key, format string, args ...any) error {
	line := s.line
	if p := s.find(key); p != nil {
		line = p.line
	}
	return fmt.Errorf("%s, line %d: %s%s %s", s.file, line, s.path, key, fmt.Sprintf(format, args...))
}

// scalar is the text of a value; ok is false where there is no such key.
func (s *section) scalar(key string) (text string, quoted, ok bool, err error) {
	p := s.find(key)
	if p == nil {
		return "", false, false, nil
	}
	value := p.value
	if value.Kind != yaml.ScalarNode {
		return "", false, true, s.fail(key, "is a list or a section; give it one value")
	}
	quoted = value.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0
	return value.Value, quoted, true, nil
}

var decimal = regexp.MustCompile(`^(0|[1-9][0-9]{0,9})$`)

// number is a whole number from least to most.
func (s *section) number(key string, least, most int, remedy string) (int, error) {
	text, _, ok, err := s.scalar(key)
	if err != nil {
		return 0, err
	}
	if !ok {
		return 0, fmt.Errorf("%s: %s%s is missing; %s", s.file, s.path, key, remedy)
	}
	n, err := strconv.Atoi(text)
	if !decimal.MatchString(text) || err != nil || n < least || n > most {
		return 0, s.fail(key, "is %q; %s", text, remedy)
	}
	return n, nil
}

// yaml-cpp's words (src/convert.cpp), each as it is, with a capital, or in capitals.
var booleans = map[string]bool{
	"y": true, "yes": true, "true": true, "on": true,
	"n": false, "no": false, "false": false, "off": false,
}

// boolean is true or false, absent what a missing key means.
func (s *section) boolean(key string, absent bool) (bool, error) {
	text, _, ok, err := s.scalar(key)
	if err != nil || !ok {
		return absent, err
	}
	value, known := booleans[strings.ToLower(text)]
	if !known {
		return false, s.fail(key, "is %q; write true or false", text)
	}
	return value, nil
}

// word is a string that is not empty and not YAML's null, which Anna cannot read.
func (s *section) word(key string) (text string, ok bool, err error) {
	text, quoted, ok, err := s.scalar(key)
	if err != nil || !ok {
		return "", ok, err
	}
	if !quoted && isNull(text) {
		return "", true, s.fail(key, "is %q, which is no string to Anna; write a value, in quotes if it has to be that", text)
	}
	return text, true, nil
}

// isNull tells whether a plain scalar is a null to yaml-cpp (src/null.cpp).
func isNull(text string) bool {
	switch text {
	case "", "~", "null", "Null", "NULL":
		return true
	}
	return false
}

func trim(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return strings.TrimPrefix(line, "yaml: ")
}
