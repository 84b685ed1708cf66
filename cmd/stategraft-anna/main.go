// Command stategraft-anna is the part of stategraft-agent that stands beside Anna and
// Cloudburst. It is a program of its own because it brings the clients of the object
// storages along, which no Cassandra pod should have to carry.
package main

import (
	_ "filippo.io/age"
	_ "github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	_ "github.com/aws/aws-sdk-go-v2/config"
	_ "github.com/aws/aws-sdk-go-v2/service/s3"
	_ "github.com/go-zeromq/zmq4"
	_ "github.com/klauspost/compress/zstd"
	_ "gocloud.dev/blob/azureblob"
	_ "gocloud.dev/blob/fileblob"
	_ "gocloud.dev/blob/gcsblob"
	_ "gocloud.dev/blob/memblob"
	_ "gocloud.dev/blob/s3blob"
	_ "golang.org/x/oauth2/google"
)

func main() {}
