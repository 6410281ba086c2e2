package local
