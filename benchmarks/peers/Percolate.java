// Lucene Monitor: stored queries of words and a box, matched against one document at a time.
// Reads `words TAB west TAB south TAB east TAB north` lines, then `words TAB lon TAB lat` lines.

import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.lucene.analysis.core.WhitespaceAnalyzer;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.DoublePoint;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.TextField;
import org.apache.lucene.index.Term;
import org.apache.lucene.monitor.Monitor;
import org.apache.lucene.monitor.MonitorConfiguration;
import org.apache.lucene.monitor.MonitorQuery;
import org.apache.lucene.monitor.QueryMatch;
import org.apache.lucene.monitor.TermFilteredPresearcher;
import org.apache.lucene.search.BooleanClause.Occur;
import org.apache.lucene.search.BooleanQuery;
import org.apache.lucene.search.TermQuery;

public class Percolate {
    public static void main(String[] given) throws Exception {
        var cpu = ManagementFactory.getThreadMXBean();
        var analyzer = new WhitespaceAnalyzer();
        var settings = new MonitorConfiguration().setQueryUpdateBufferSize(5000);
        try (var monitor = new Monitor(analyzer, new TermFilteredPresearcher(), settings)) {
            List<MonitorQuery> queries = new ArrayList<>();
            for (String line : Files.readAllLines(Path.of(given[0]))) {
                String[] parts = line.split("\t");
                var all = new BooleanQuery.Builder();
                for (String word : parts[0].split(" ")) {
                    all.add(new TermQuery(new Term("text", word)), Occur.MUST);
                }
                all.add(DoublePoint.newRangeQuery("lon", number(parts[1]), number(parts[3])), Occur.MUST);
                all.add(DoublePoint.newRangeQuery("lat", number(parts[2]), number(parts[4])), Occur.MUST);
                queries.add(new MonitorQuery("s" + queries.size(), all.build()));
                if (queries.size() % 5000 == 0) {
                    monitor.register(queries.subList(queries.size() - 5000, queries.size()));
                }
            }
            monitor.register(queries.subList(queries.size() / 5000 * 5000, queries.size()));
            List<Document> documents = new ArrayList<>();
            for (String line : Files.readAllLines(Path.of(given[1]))) {
                String[] parts = line.split("\t");
                var document = new Document();
                document.add(new TextField("text", parts[0], Field.Store.NO));
                document.add(new DoublePoint("lon", number(parts[1])));
                document.add(new DoublePoint("lat", number(parts[2])));
                documents.add(document);
            }
            for (int round = 0; round < Integer.parseInt(given[2]); round++) {
                long begun = cpu.getCurrentThreadCpuTime(), matches = 0;
                for (Document document : documents) {
                    matches += monitor.match(document, QueryMatch.SIMPLE_MATCHER).getMatchCount();
                }
                long took = cpu.getCurrentThreadCpuTime() - begun;
                System.out.println(matches + " " + took / 1e9);
            }
        }
    }

    private static double number(String text) {
        return Double.parseDouble(text);
    }
}
