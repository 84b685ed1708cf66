// Command generate writes the Go code of api/medusa/medusa.proto into the folder of
// its argument. It needs no protoc: the file is compiled here and handed to the two
// generators as protoc does. They and the compiler are pinned in this module's
// go.mod; it is a module of its own so that nobody who imports ours gets them.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

// source is named so in what is generated: a program may have no two of one name.
const source = "api/medusa/medusa.proto"

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: generate REPOSITORY FOLDER")
		os.Exit(2)
	}
	if err := generate(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func generate(repository, folder string) error {
	compiler := protocompile.Compiler{
		Resolver:       &protocompile.SourceResolver{ImportPaths: []string{repository}},
		SourceInfoMode: protocompile.SourceInfoStandard, // for the comments
	}
	files, err := compiler.Compile(context.Background(), source)
	if err != nil {
		return fmt.Errorf("compile %s: %w", source, err)
	}
	request, err := proto.Marshal(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{source},
		Parameter:      proto.String("paths=source_relative"),
		ProtoFile:      []*descriptorpb.FileDescriptorProto{protoutil.ProtoFromFileDescriptor(files[0])},
	})
	if err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	for _, generator := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		if err := run(generator, request, folder); err != nil {
			return fmt.Errorf("%s: %w", generator, err)
		}
	}
	return nil
}

// run has one generator answer the request, and writes its files.
func run(generator string, request []byte, folder string) error {
	var output bytes.Buffer
	command := exec.Command("go", "tool", generator)
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(request), &output, os.Stderr
	if err := command.Run(); err != nil {
		return err
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(output.Bytes(), &response); err != nil {
		return fmt.Errorf("read its answer: %w", err)
	}
	if response.Error != nil {
		return fmt.Errorf("%s", response.GetError())
	}
	for _, file := range response.File {
		path := filepath.Join(folder, filepath.Base(file.GetName()))
		if err := os.WriteFile(path, []byte(file.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
