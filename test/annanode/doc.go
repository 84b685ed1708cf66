// Package annanode is an Anna for tests: nodes of the memory and the disk tier and
// of routing that speak Anna's protocol and have its traps, in Go.
//
// [Start] runs one node, [StartCluster] some on addresses of the loopback network;
// cmd/annanode is the same as programs, in place of Anna's in a container. All
// ports are Anna's own, so every node needs an address of its own: [FreeHosts]
// finds 127.x.y.z. A node that is given a name as address resolves it as Anna does.
//
// What holds as in Anna, checked against it by the conformance test:
//   - A key new to a thread is looked up with the owner of its metadata first; until
//     then its tuples wait, and each is answered in a response of its own. Routing
//     drops the rest of a lookup at the first key it does not know.
//   - A PUT of another type, or of none, is answered without error and with the type
//     NONE. An empty value is KEY_DNE with its type, in the memory tier with its payload.
//   - Each thread reports the keys it is the first owner of every 15 s
//     ([Config].Report), as an LWW value; an empty list is such an empty value.
//   - Changed keys go to the other replicas every 10 s ([Config].Gossip).
//   - A join moves at most 50 keys for each thread of the new node; the rest is
//     hidden for good ([Config].NoJoinDefect moves all of them).
//   - The first public address of a private one stays. Dead nodes stay members.
//   - A node of several threads that is told to depart crashes when thread 0 is done, and
//     takes the keys of thread 1 with it, if that has not departed before.
//   - The disk tier writes <root>/ebs_<tid>/<key>, makes no directory, reads none at
//     start, and acknowledges what it could not write.
//   - Answers to an address where nobody listens wait; after 1000 of them the thread
//     blocks until somebody does.
//   - A request for the empty key, or for any key while no memory node is known,
//     kills the process.
//   - More replicas than nodes, and with [Config].Freeze more than 1000 tuples of new
//     keys at once, stop a thread for good.
//   - The ring is that of a build with libstdc++.
//
// What does not: it never spins, where Anna's threads do; the keys of a join are sent once
// and not for ever, with which Anna's nodes block each other for good (observed with 20,000
// keys in two nodes, and a third that joined with count 0: no thread of the two answered
// any more); all threads of a node know the same members from the start, where each of
// Anna's asks for itself, and of nodes that start together one may never learn of the other; a list of the keys'
// accesses is reported empty; metadata of several keys is asked for in one message;
// caches of Cloudburst are not told of changes; what waits for the metadata of a key
// is asked for again when a node departs.
//
// For tests, [Node.Stats] tells what clients did to it: the most tuples outstanding
// to a thread, how many distinct addresses it was to answer, what waits there.
package annanode
