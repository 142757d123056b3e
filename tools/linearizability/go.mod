// The checker of histories, which tools/install builds into .tools/bin.
module bellwether/tools/linearizability

go 1.26.0

require github.com/anishathalye/porcupine v1.3.1
